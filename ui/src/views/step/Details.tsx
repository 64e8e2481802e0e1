/** What else is known of a step. */
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { Link } from "react-router";
import { OVER, type Step, type StepDetail, type TaskTree } from "@/api/documents";
import { stepValuesQuery } from "@/api/steps";
import { stepAddress, taskAddress } from "@/parts/addresses";
import { Button } from "@/parts/Button";
import { CopyText } from "@/parts/CopyText";
import { Fact } from "@/parts/Fact";
import { plain } from "@/parts/log/ansi";
import { ProblemNote } from "@/parts/ProblemNote";
import { StateMark } from "@/parts/State";
import { count, instant } from "@/texts/format";
import { t, worded } from "@/texts/texts";

export function Details({ task, step }: { task: TaskTree; step: StepDetail }) {
  const owned = task.steps.filter((other) => other.owner === step.key).sort((a, b) => placeOf(a) - placeOf(b));
  return (
    <dl className="flex flex-col gap-x-4 gap-y-2.5 rounded-lg border border-line bg-surface px-4 py-3 sm:grid sm:grid-cols-[9rem_1fr]">
      <Row name={t.step.kind}>{worded(t.words.kind, step.kind)}</Row>
      <Row name={t.step.stage}>{task.stages[step.stage - 1]?.name}</Row>
      {step.owner === null ? null : (
        <Row name={t.step.owner}>
          <StepLink task={task} step={step.owner} />
        </Row>
      )}
      {step.needs.length === 0 ? null : (
        <Row name={t.step.needs}>
          <Steps task={task} keys={step.needs} />
        </Row>
      )}
      {owned.length === 0 ? null : (
        <Row name={t.step.owned}>
          <Steps task={task} keys={owned.map((other) => other.key)} />
        </Row>
      )}
      {step.child ? (
        <Row name={t.step.child}>
          <Link to={taskAddress(step.child.task)} className="text-accent underline">
            {step.child.handle}
          </Link>
        </Row>
      ) : null}
      {step.began_at === null ? null : <Row name={t.step.began}>{instant(step.began_at)}</Row>}
      {step.ended_at === null ? null : <Row name={t.step.ended}>{instant(step.ended_at)}</Row>}
      {step.rounds === 0 ? null : <Row name={t.step.rounds}>{count(step.rounds)}</Row>}
      {step.because === null ? null : <Row name={t.step.because}>{step.because}</Row>}
      {step.commit === null ? null : (
        <Row name={t.step.commit}>
          <CopyText text={step.commit} />
        </Row>
      )}
      {step.reason === null ? null : (
        <Row name={t.step.reason}>
          <Text label={t.step.reason} text={plain(step.reason)} />
        </Row>
      )}
      {step.question === null || step.waiting_for === "user" ? null : (
        <Row name={t.step.waitsFor}>
          <Text label={t.step.waitsFor} text={JSON.stringify(step.question, null, 2)} />
        </Row>
      )}
      {step.result === null ? null : (
        <Row name={t.step.outputs}>
          <Result task={task.id} step={step} />
        </Row>
      )}
    </dl>
  );
}

function Row({ name, children }: { name: string; children: ReactNode }) {
  return (
    <Fact name={name} className="min-w-0 max-sm:-mt-2">
      {children}
    </Fact>
  );
}

const SHOWN_MAX = 60;

/** What went wrong comes first, then what is under way. */
function placeOf(step: Step): number {
  if (step.state === "failed" || step.state === "cancelled") return 0;
  return OVER.has(step.state) ? 2 : 1;
}

function Steps({ task, keys }: { task: TaskTree; keys: readonly string[] }) {
  return (
    <ul className="flex flex-wrap gap-x-4 gap-y-0.5">
      {keys.slice(0, SHOWN_MAX).map((key) => (
        <li key={key}>
          <StepLink task={task} step={key} />
        </li>
      ))}
      {keys.length > SHOWN_MAX ? <li className="text-muted">… {count(keys.length - SHOWN_MAX)}</li> : null}
    </ul>
  );
}

function StepLink({ task, step }: { task: TaskTree; step: string }) {
  const state = task.steps.find((other) => other.key === step)?.state;
  return (
    <Link to={stepAddress(task.id, step)} className="inline-flex items-center gap-1.5 break-all text-accent underline">
      {state === undefined ? null : <StateMark state={state} named />}
      {step}
    </Link>
  );
}

function Text({ label, text }: { label: string; text: string }) {
  return (
    <pre
      tabIndex={0}
      aria-label={label}
      className="max-h-96 overflow-auto rounded-md bg-raised px-2.5 py-1.5 font-mono text-[12px] leading-[18px] break-words whitespace-pre-wrap"
    >
      {text}
    </pre>
  );
}

/** A large one is kept aside, and fetched when somebody looks. */
function Result({ task, step }: { task: string; step: StepDetail }) {
  const [wanted, setWanted] = useState(false);
  const values = useQuery({ ...stepValuesQuery(task, step.key), enabled: wanted });
  const aside = typeof step.result === "object" && step.result !== null && "$artifact" in step.result;
  if (!aside) return <Text label={t.step.outputs} text={JSON.stringify(step.result, null, 2)} />;
  if (values.data !== undefined)
    return <Text label={t.step.outputs} text={JSON.stringify(values.data.result, null, 2)} />;
  if (values.error !== null) return <ProblemNote error={values.error} onRetry={() => void values.refetch()} />;
  return (
    <Button onClick={() => setWanted(true)} disabled={wanted}>
      {t.step.loadResult}
    </Button>
  );
}
