/** Nothing is asked any more: what became of the question. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import type { StepDetail } from "@/api/documents";
import { stepQuery } from "@/api/steps";
import { Asked } from "@/parts/Asked";
import { stepAddress } from "@/parts/addresses";
import { buttonClass } from "@/parts/Button";
import { Figure } from "@/parts/Figure";
import { plain } from "@/parts/log/ansi";
import { State } from "@/parts/State";
import { t, worded } from "@/texts/texts";
import { isWords } from "./asked";
import { Pre } from "./Pre";

export function Decided({ task, step }: { task: string; step: string }) {
  const found = useQuery(stepQuery(task, step));
  return (
    <section aria-label={t.approval.over} className="flex flex-col gap-3">
      <h1 className="text-xl font-semibold">{t.approval.over}</h1>
      <Asked query={found}>{(detail) => <Outcome step={detail} />}</Asked>
      <div className="flex gap-2">
        <Link to="/inbox" className={buttonClass("main")}>
          {t.approval.toInbox}
        </Link>
        <Link to={stepAddress(task, step)} className={buttonClass("plain")}>
          {t.approval.toStep}
        </Link>
      </div>
    </section>
  );
}

function Outcome({ step }: { step: StepDetail }) {
  const result: unknown = step.result;
  const said = isWords(result) ? result : {};
  return (
    <dl className="flex flex-col gap-2 rounded-lg border border-line bg-surface px-4 py-3">
      <Figure wide name={step.key}>
        <State state={step.state} />
      </Figure>
      {typeof said.decision === "string" ? (
        <Figure wide name={t.approval.decision}>
          <span className="font-medium">{worded(t.words.answer, said.decision)}</span>
          {typeof said.by === "string" ? <span className="text-muted"> · {said.by}</span> : null}
        </Figure>
      ) : null}
      {typeof said.text === "string" && said.text !== "" ? (
        <Figure wide name={t.approval.said}>
          <Pre label={t.approval.said} text={said.text} bare />
        </Figure>
      ) : null}
      {said.edited === undefined ? null : (
        <Figure wide name={t.approval.edited}>
          <Pre
            label={t.approval.edited}
            text={typeof said.edited === "string" ? said.edited : JSON.stringify(said.edited, null, 2)}
            bare
          />
        </Figure>
      )}
      {step.reason === null || step.state === "completed" ? null : (
        <Figure wide name={t.step.reason}>
          <Pre label={t.step.reason} text={plain(step.reason)} bare />
        </Figure>
      )}
    </dl>
  );
}
