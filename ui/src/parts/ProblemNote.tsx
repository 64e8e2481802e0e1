/** What did not work, as the server tells it (RFC 9457), and what helps. */
import { TriangleAlert } from "lucide-react";
import { Problem } from "@/api/problem";
import { t } from "@/texts/texts";
import { Button } from "./Button";

type Props = { error: unknown; onRetry?: () => void };

export function ProblemNote({ error, onRetry }: Props) {
  const problem = error instanceof Problem ? error : null;
  const title = (problem && (t.problem.words[problem.word] ?? problem.title)) || t.problem.title;
  const detail = problem ? problem.detail : String(error);
  return (
    <div role="alert" className="flex gap-2 rounded-md border border-bad bg-bad-soft px-3 py-2">
      <TriangleAlert size={16} aria-hidden className="mt-0.5 shrink-0 text-bad" />
      <div className="min-w-0 flex-1">
        <p className="font-medium">{title}</p>
        {detail && !problem?.problems.length ? <p className="break-words">{detail}</p> : null}
        {problem?.word === "unreachable" ? <p>{t.problem.unreachableHelp}</p> : null}
        {problem && problem.problems.length > 0 ? (
          <ul className="mt-1 list-disc pl-5">
            {problem.problems.map((one) => (
              <li key={`${one.path} ${one.message}`}>
                {one.path ? <code className="font-mono">{one.path}</code> : null} {one.message}
              </li>
            ))}
          </ul>
        ) : null}
      </div>
      {onRetry ? (
        <Button onClick={onRetry} className="self-start">
          {t.parts.again}
        </Button>
      ) : null}
    </div>
  );
}
