/** The output of an attempt, loaded and followed. */
import { Loading } from "@/parts/Loading";
import { ProblemNote } from "@/parts/ProblemNote";
import { t } from "@/texts/texts";
import { Log } from "./Log";
import { useOutput } from "./output";

type Props = { task: string; step: string; attempt: number; live: boolean; height?: string; main?: boolean };

export function OutputLog({ task, step, attempt, live, height, main }: Props) {
  const output = useOutput(task, step, attempt);
  if (!output.loaded && output.lines.length === 0) {
    return output.error === null ? <Loading /> : <ProblemNote error={output.error} onRetry={output.again} />;
  }
  return (
    <div className="flex flex-col gap-2">
      {output.error === null ? null : <ProblemNote error={output.error} onRetry={output.again} />}
      <Log
        key={`${step} ${attempt}`}
        label={t.log.of(step, attempt)}
        name={`${step}.${attempt}.txt`}
        lines={output.lines}
        version={output.version}
        ended={output.ended}
        live={live}
        height={height}
        main={main}
      />
    </div>
  );
}
