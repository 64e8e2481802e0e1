/** So many lines have come, and so many gone. */
import { count } from "@/texts/format";
import { t } from "@/texts/texts";

type Props = { insertions: number; deletions: number; binary?: boolean };

export function Counts({ insertions, deletions, binary = false }: Props) {
  if (binary) return <span className="text-muted">{t.diff.bytes}</span>;
  return (
    <span className="whitespace-nowrap tabular-nums">
      <span className="text-ok">+{count(insertions)}</span> <span className="text-bad">−{count(deletions)}</span>
    </span>
  );
}
