/** A text as it stands. */
type Props = { label: string; text: string; /** Within something that has a border already. */ bare?: boolean };

export function Pre({ label, text, bare = false }: Props) {
  return (
    <pre
      tabIndex={0}
      aria-label={label}
      className={`max-h-96 overflow-auto font-mono text-[12px] leading-[18px] break-words whitespace-pre-wrap ${bare ? "" : "rounded-lg border border-line bg-surface px-3 py-2"}`}
    >
      {text}
    </pre>
  );
}
