/** What kind of step it is, as a small picture with a name. */
import { Bot, Clock, Cog, FileBox, ListTree, Phone, Repeat, SquareTerminal, UserCheck } from "lucide-react";
import { memo } from "react";
import { t, worded } from "@/texts/texts";

const ICONS = {
  run: SquareTerminal,
  function: Cog,
  agent: Bot,
  approval: UserCheck,
  wait: Clock,
  artifact: FileBox,
  for_each: Repeat,
  call: Phone,
  task: ListTree,
} as const;

export const KindMark = memo(function KindMark({ kind }: { kind: string }) {
  const Icon = ICONS[kind as keyof typeof ICONS] ?? Cog;
  const name = worded(t.words.kind, kind);
  return <Icon size={14} role="img" aria-label={name} className="shrink-0 text-muted" />;
});
