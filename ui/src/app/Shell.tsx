/** What stands around every view: navigation, whether it is live, notices, shortcuts. */
import { useQuery } from "@tanstack/react-query";
import { Activity, Ellipsis, Inbox, Keyboard, ListTree, LogOut, Server } from "lucide-react";
import { type ComponentType, useState } from "react";
import { NavLink, Outlet, ScrollRestoration } from "react-router";
import { approvalsQuery } from "@/api/approvals";
import { whoQuery } from "@/api/installation";
import { Problem } from "@/api/problem";
import { heldToken, holdToken } from "@/api/token";
import { Button } from "@/parts/Button";
import { Dialog } from "@/parts/Dialog";
import { useNotices } from "@/parts/notices";
import { t } from "@/texts/texts";
import { LiveMark, StaleBanner } from "./LiveNote";
import { ShortcutList } from "./ShortcutList";
import { SignIn } from "./SignIn";
import { useShortcuts } from "./shortcuts";
import { ThemeSwitch } from "./ThemeSwitch";

export function Shell() {
  const who = useQuery(whoQuery());
  const [listed, setListed] = useState(false);
  const [showList] = useState(() => () => setListed(true));
  useShortcuts(showList);
  if (who.error instanceof Problem && who.error.status === 401) return <SignIn />;
  return (
    <div className="flex min-h-dvh flex-col sm:flex-row">
      <a href="#content" className="sr-only focus:not-sr-only focus:fixed focus:z-50 focus:bg-surface focus:p-2">
        {t.app.skip}
      </a>
      <Navigation showList={showList} />
      <div className="flex min-w-0 flex-1 flex-col pb-16 sm:pb-0">
        <StaleBanner />
        <main id="content" tabIndex={-1} className="flex min-h-0 w-full flex-1 flex-col px-3 py-3 outline-none sm:px-5">
          <Outlet />
        </main>
      </div>
      <Notices />
      {listed ? <ShortcutList onClose={() => setListed(false)} /> : null}
      <ScrollRestoration />
    </div>
  );
}

function Navigation({ showList }: { showList: () => void }) {
  const asked = useQuery(approvalsQuery());
  const waiting = asked.data?.items.length ?? 0;
  return (
    <header className="fixed inset-x-0 bottom-0 z-20 border-t border-line bg-surface sm:sticky sm:inset-auto sm:top-0 sm:flex sm:h-dvh sm:w-44 sm:shrink-0 sm:flex-col sm:border-t-0 sm:border-r">
      <p className="flex items-center gap-2 px-4 pt-4 pb-3 font-semibold max-sm:hidden">
        <img src="/assets/icon.svg" alt="" width="20" height="20" />
        {t.app.name}
      </p>
      <nav aria-label={t.app.navigation} className="flex justify-around sm:flex-col sm:gap-0.5 sm:px-2">
        <Place to="/inbox" icon={Inbox} text={t.app.inbox} waiting={waiting} />
        <Place to="/tasks" icon={ListTree} text={t.app.tasks} />
        <Place to="/events" icon={Activity} text={t.app.events} />
        <Place to="/fleet" icon={Server} text={t.app.fleet} />
        <More />
      </nav>
      <div className="mt-auto flex flex-col gap-3 px-4 py-4 max-sm:hidden">
        <Me />
        <LiveMark />
        <div className="flex items-center justify-between">
          <ThemeSwitch />
          <button
            type="button"
            title={t.app.shortcuts}
            aria-label={t.app.shortcuts}
            onClick={showList}
            className="rounded p-1.5 text-muted hover:text-ink"
          >
            <Keyboard size={16} aria-hidden />
          </button>
        </div>
      </div>
    </header>
  );
}

/** On a phone: what stands below the navigation elsewhere. */
function More() {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button
        type="button"
        onClick={() => setOpen(true)}
        className="flex flex-1 flex-col items-center justify-center gap-0.5 rounded-md px-2 py-2 text-xs text-muted hover:text-ink sm:hidden"
      >
        <Ellipsis size={18} aria-hidden />
        {t.app.more}
      </button>
      {open ? (
        <Dialog title={t.app.more} onClose={() => setOpen(false)}>
          <div className="flex flex-col gap-4">
            <Me />
            <LiveMark />
            <ThemeSwitch />
          </div>
        </Dialog>
      ) : null}
    </>
  );
}

type PlaceProps = { to: string; icon: ComponentType<{ size?: number }>; text: string; waiting?: number };

function Place({ to, icon: Icon, text, waiting = 0 }: PlaceProps) {
  return (
    <NavLink
      to={to}
      className="relative flex flex-1 items-center justify-center gap-2 rounded-md px-2 py-1.5 text-muted hover:text-ink aria-[current=page]:text-accent max-sm:flex-col max-sm:gap-0.5 max-sm:py-2 max-sm:text-xs sm:justify-start sm:aria-[current=page]:bg-accent-soft sm:aria-[current=page]:font-medium"
    >
      <span aria-hidden>
        <Icon size={18} />
      </span>
      {text}
      {waiting > 0 ? (
        <span className="rounded-full bg-accent px-1.5 text-xs font-semibold text-accent-ink tabular-nums max-sm:absolute max-sm:top-1 max-sm:ml-10 sm:ml-auto">
          <span aria-hidden>{waiting}</span>
          <span className="sr-only">{t.app.waiting(waiting)}</span>
        </span>
      ) : null}
    </NavLink>
  );
}

function Me() {
  const who = useQuery(whoQuery());
  if (!who.data) return null;
  return (
    <div className="flex items-center justify-between gap-2 text-muted">
      <span className="truncate" title={t.app.you(who.data.name)}>
        {who.data.name}
      </span>
      {heldToken() === null ? null : (
        <Button look="quiet" onClick={() => holdToken(null)} aria-label={t.app.signOut} title={t.app.signOut}>
          <LogOut size={14} aria-hidden />
        </Button>
      )}
    </div>
  );
}

function Notices() {
  const notices = useNotices();
  return (
    <div role="status" aria-live="polite" className="fixed right-4 bottom-20 z-30 flex flex-col gap-2 sm:bottom-4">
      {notices.map((notice) => (
        <p key={notice.id} className="rounded-md border border-line bg-surface px-3 py-2 shadow-high">
          {notice.text}
        </p>
      ))}
    </div>
  );
}
