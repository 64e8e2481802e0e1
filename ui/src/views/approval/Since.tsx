/** What the code has become since a version that somebody has looked at. */
import { useQuery } from "@tanstack/react-query";
import { patchSinceQuery } from "@/api/approvals";
import type { Approval } from "@/api/documents";
import { Asked } from "@/parts/Asked";
import { LazyPatch } from "@/parts/diff/LazyPatch";
import { Folding } from "@/parts/Folding";
import { t } from "@/texts/texts";
import { shownOf } from "./asked";

const ID_CHARS = 12;

/** Nothing, when it is the same code. */
export function Since({ seen, now }: { seen: Approval; now: Approval }) {
  const [from, to] = [shownOf(seen).head, shownOf(now).head];
  if (from === null || to === null || from === to) return null;
  return (
    <section aria-label={t.approval.sinceSeen} className="rounded-lg border border-line bg-surface">
      <Folding
        head={
          <>
            <h2 className="font-semibold">{t.approval.sinceSeen}</h2>
            <span className="font-mono text-[0.86em] text-muted">
              {t.approval.range(from.slice(0, ID_CHARS), to.slice(0, ID_CHARS))}
            </span>
          </>
        }
      >
        <Changes now={now} from={from} />
      </Folding>
    </section>
  );
}

function Changes({ now, from }: { now: Approval; from: string }) {
  const patch = useQuery(patchSinceQuery(now.task, now.step, now.version, from));
  return <Asked query={patch}>{(text) => <LazyPatch patch={text} about={t.approval.sinceSeen} />}</Asked>;
}
