/** One turn of an agent, with the tools that it called; and what it was told. */
import { ChevronRight, MessageSquareText, Wrench } from "lucide-react";
import { memo } from "react";
import { StateMark } from "@/parts/State";
import { duration, firstLine, money } from "@/texts/format";
import { t } from "@/texts/texts";
import { aboutOf, type Told, type ToolUse, type Turn } from "./run";

const LONG_LINES = 12; // what is longer is folded

export const ToldCard = memo(function ToldCard({ told }: { told: Told }) {
  const long = told.text.split("\n").length > LONG_LINES || told.text.length > 1_500;
  const head = (
    <>
      <MessageSquareText size={14} aria-hidden className="shrink-0 text-muted" />
      <span className="font-medium">{t.step.told}</span>
    </>
  );
  return (
    <div className="rounded-lg border border-line bg-raised px-3 py-2">
      {long ? (
        <details className="group">
          <summary className="flex list-none items-center gap-2">
            <Chevron />
            {head}
            <span className="min-w-0 flex-1 truncate text-muted">{firstLine(told.text)}</span>
          </summary>
          <p className="mt-2 break-words whitespace-pre-wrap">{told.text}</p>
        </details>
      ) : (
        <>
          <p className="flex items-center gap-2">{head}</p>
          <p className="mt-1 break-words whitespace-pre-wrap">{told.text}</p>
        </>
      )}
    </div>
  );
});

export const TurnCard = memo(function TurnCard({ turn, number }: { turn: Turn; number: number }) {
  return (
    <article aria-label={t.step.turn(number)} className="rounded-lg border border-line bg-surface px-3 py-2">
      <header className="flex flex-wrap items-baseline gap-x-3 text-muted">
        <h2 className="font-medium text-ink">{t.step.turn(number)}</h2>
        <span>{turn.model}</span>
        <span className="ml-auto flex flex-wrap gap-x-3 tabular-nums">
          {turn.tookMs === null ? null : <span>{duration(turn.tookMs)}</span>}
          {turn.usage === null ? null : (
            <>
              <span>{t.step.inOut(turn.usage.tokensIn, turn.usage.tokensOut)}</span>
              <span>{turn.usage.micros === null ? t.step.noPrice : exactMoney(turn.usage.micros)}</span>
            </>
          )}
        </span>
      </header>
      {turn.text === "" ? null : <p className="mt-1 break-words whitespace-pre-wrap">{turn.text}</p>}
      {turn.uses.length === 0 ? null : (
        <ul className="mt-1.5 flex flex-col gap-1">
          {turn.uses.map((use, index) => (
            <li key={index}>
              <Use use={use} />
            </li>
          ))}
        </ul>
      )}
      {turn.outputs === null ? null : <Block label={t.step.outputs} text={JSON.stringify(turn.outputs, null, 2)} />}
    </article>
  );
});

/** A turn may cost less than a cent. */
export function exactMoney(micros: number): string {
  return micros > 0 && micros < 10_000 ? `${(micros / 1e6).toFixed(4)} USD` : money(micros);
}

function Use({ use }: { use: ToolUse }) {
  const about = aboutOf(use.args);
  const line = (
    <>
      <Wrench size={13} aria-hidden className="shrink-0 self-center text-muted" />
      <span className="font-medium">{use.name}</span>
      <code className="min-w-0 flex-1 truncate font-mono text-[0.93em] text-muted">{firstLine(about)}</code>
      {use.decided === null ? null : <span className="max-w-[40%] truncate text-wait">{use.decided}</span>}
      {use.tookMs === null ? null : <span className="text-muted tabular-nums">{duration(use.tookMs)}</span>}
      {use.running ? <StateMark state="running" named /> : use.failed ? <StateMark state="failed" named /> : null}
    </>
  );
  if (use.args === null && use.text === null) {
    return <p className="flex items-baseline gap-2 rounded-md px-2 py-1">{line}</p>;
  }
  return (
    <details className="group rounded-md bg-raised">
      <summary className="flex list-none items-baseline gap-2 rounded-md px-2 py-1">
        <Chevron />
        {line}
      </summary>
      <div className="flex flex-col gap-2 px-2 pb-2">
        {use.args === null ? null : <Block label={t.step.args} text={argsText(use.args)} />}
        {use.decided === null ? null : <p className="break-words text-wait">{use.decided}</p>}
        {use.text === null ? null : (
          <Block label={t.step.result} text={use.text || t.step.emptyResult} bad={use.failed} />
        )}
      </div>
    </details>
  );
}

/** A call with nothing but a command is that command. */
function argsText(args: unknown): string {
  if (typeof args === "object" && args !== null && Object.keys(args).length === 1) return aboutOf(args);
  return typeof args === "string" ? args : JSON.stringify(args, null, 2);
}

function Block({ label, text, bad = false }: { label: string; text: string; bad?: boolean }) {
  return (
    <figure className="mt-1">
      <figcaption
        className={bad ? "text-bad" : "text-muted"}
      >{`${label}${bad ? ` (${t.words.state.failed})` : ""}`}</figcaption>
      <pre
        tabIndex={0}
        aria-label={label}
        className="max-h-96 overflow-auto rounded-md border border-line bg-surface px-2 py-1 font-mono text-[12px] leading-[18px] break-words whitespace-pre-wrap"
      >
        {text}
      </pre>
    </figure>
  );
}

function Chevron() {
  return <ChevronRight size={14} aria-hidden className="shrink-0 self-center text-muted group-open:rotate-90" />;
}
