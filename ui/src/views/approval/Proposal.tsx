/** The steps that a planner wants to add, each with what it does and what it waits for. */
import { useQuery } from "@tanstack/react-query";
import type { Approval } from "@/api/documents";
import { stepValuesQuery } from "@/api/steps";
import { Asked } from "@/parts/Asked";
import { Folding } from "@/parts/Folding";
import { KindMark } from "@/parts/KindMark";
import { t } from "@/texts/texts";
import { Pre } from "./Pre";
import { isAside, type Proposed, proposedIn } from "./proposed";

export function Proposal({ approval }: { approval: Approval }) {
  const { result } = approval.question;
  return isAside(result) ? <Fetched approval={approval} /> : <Steps steps={proposedIn(result)} />;
}

function Fetched({ approval }: { approval: Approval }) {
  const step = useQuery(stepValuesQuery(approval.task, approval.step));
  return <Asked query={step}>{({ question }) => <Steps steps={proposedIn(question?.result)} />}</Asked>;
}

function Steps({ steps }: { steps: readonly Proposed[] }) {
  const title = steps.length === 0 ? t.hands.noneProposed : t.hands.proposed;
  return (
    <section aria-label={title} className="flex min-w-0 flex-col gap-2">
      <h2 className="text-base font-semibold">{title}</h2>
      <ol className="divide-y divide-line rounded-lg border border-line bg-surface empty:hidden">
        {steps.map((step) => (
          <li key={step.id}>
            <Folding
              head={
                <>
                  <span className="self-center">
                    <KindMark kind={step.kind} />
                  </span>
                  <span className="font-medium break-all">{step.id}</span>
                  {step.needs.length === 0 ? null : (
                    <span className="text-muted">{t.hands.needs(step.needs.join(", "))}</span>
                  )}
                  <span
                    className={`min-w-0 basis-full pl-6 break-words ${step.kind === "run" ? "font-mono text-[0.93em]" : ""}`}
                  >
                    {step.does}
                  </span>
                </>
              }
            >
              <Pre label={`${t.hands.allWords}: ${step.id}`} text={JSON.stringify(step.words, null, 2)} bare />
            </Folding>
          </li>
        ))}
      </ol>
    </section>
  );
}
