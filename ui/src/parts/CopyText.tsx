/** A command or an id, to be taken along. */
import { Check, Copy } from "lucide-react";
import { useState } from "react";
import { t } from "@/texts/texts";

export function CopyText({ text }: { text: string }) {
  const [copied, setCopied] = useState(false);
  const copy = () => {
    void navigator.clipboard?.writeText(text).then(() => {
      setCopied(true);
      setTimeout(() => setCopied(false), 1_500);
    });
  };
  return (
    <span className="inline-flex max-w-full items-center gap-1 rounded bg-raised px-1.5 py-0.5">
      <code className="overflow-x-auto font-mono text-[0.93em] whitespace-pre">{text}</code>
      <button
        type="button"
        onClick={copy}
        aria-label={`${t.parts.copy}: ${text}`}
        className="rounded p-0.5 text-muted hover:text-ink"
      >
        {copied ? <Check size={14} aria-hidden /> : <Copy size={14} aria-hidden />}
      </button>
      <span role="status" className="sr-only">
        {copied ? t.parts.copied : ""}
      </span>
    </span>
  );
}
