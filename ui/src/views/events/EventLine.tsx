/** An event: when, what, whom it is about; its document when somebody asks for it. */
import { memo } from "react";
import { Link } from "react-router";
import { stepOf, taskOf } from "@/live/touched";
import { stepAddress, taskAddress } from "@/parts/addresses";
import { StateMark } from "@/parts/State";
import { clock, instant } from "@/texts/format";
import type { Entry } from "./filters";
import { markOf, subjectOf, toldOf } from "./told";

type Props = {
  entry: Entry;
  /** The day stands in front of the time: it is not that of its neighbour. */
  dated: boolean;
  open: boolean;
  /** How its task is called, where there are several. */
  task: string | null;
};

const INKS: Readonly<Record<string, string>> = {
  completed: "text-ok",
  failed: "text-bad",
  cancelled: "text-bad",
  waiting: "text-wait",
  paused: "text-wait",
};

export const EventLine = memo(function EventLine({ entry, dated, open, task }: Props) {
  const { event } = entry;
  const at = Date.parse(event.time);
  const mark = markOf(event.type);
  const step = stepOf(event);
  const subject = subjectOf(event);
  const id = taskOf(event);
  return (
    <>
      <div className="flex h-[30px] cursor-pointer items-center gap-3 overflow-hidden px-3 max-sm:gap-2 max-sm:px-2">
        <time
          dateTime={event.time}
          title={instant(at)}
          className="w-32 shrink-0 text-right whitespace-nowrap text-muted tabular-nums max-sm:w-16"
        >
          <span className="max-sm:hidden">{dated ? `${instant(at).slice(5, 10)} ` : ""}</span>
          {clock(at)}
        </time>
        <span className={`inline-flex w-52 shrink-0 items-center gap-2 max-sm:w-36 ${INKS[mark] ?? ""}`}>
          <StateMark state={mark} />
          <span className="truncate">{event.type}</span>
        </span>
        {task === null ? null : (
          <Link
            tabIndex={-1}
            to={taskAddress(id)}
            onClick={(click) => click.stopPropagation()}
            className="w-28 shrink-0 truncate hover:underline max-sm:hidden"
            title={id}
          >
            {task}
          </Link>
        )}
        {step === null ? (
          <span className="max-w-[40%] shrink-0 truncate">{subject}</span>
        ) : (
          <Link
            tabIndex={-1}
            to={stepAddress(id, step)}
            onClick={(click) => click.stopPropagation()}
            className="max-w-[40%] shrink-0 truncate font-medium hover:underline"
            title={step}
          >
            {step}
          </Link>
        )}
        <span className="min-w-0 flex-1 truncate text-muted">{toldOf(event)}</span>
        {event.actor === null ? null : (
          <span className="max-w-32 truncate text-muted max-sm:hidden">{event.actor}</span>
        )}
        <span className="shrink-0 text-muted tabular-nums max-sm:hidden">#{event.seq}</span>
      </div>
      {open ? (
        <pre
          tabIndex={0}
          onClick={(click) => click.stopPropagation()}
          className="mx-3 mb-2 max-h-96 overflow-auto rounded border border-line bg-ground p-2 font-mono text-[0.93em]"
        >
          {JSON.stringify(event, null, 2)}
        </pre>
      ) : null}
    </>
  );
});
