/** A field with its name above it. */
import { type InputHTMLAttributes, type TextareaHTMLAttributes, useId } from "react";

const LOOK = "w-full rounded-md border border-line-strong bg-surface px-2.5 py-1.5 max-sm:text-base";

type Own = { label: string; hint?: string };

export function Field({ label, hint, className = "", ...rest }: Own & InputHTMLAttributes<HTMLInputElement>) {
  const id = useId();
  return (
    <div className={className}>
      <label htmlFor={id} className="mb-1 block font-medium">
        {label}
      </label>
      <input id={id} aria-describedby={hint ? `${id}-hint` : undefined} className={LOOK} {...rest} />
      <Hint id={`${id}-hint`} text={hint} />
    </div>
  );
}

export function TextField({ label, hint, ...rest }: Own & TextareaHTMLAttributes<HTMLTextAreaElement>) {
  const id = useId();
  return (
    <div>
      <label htmlFor={id} className="mb-1 block font-medium">
        {label}
      </label>
      <textarea id={id} rows={3} aria-describedby={hint ? `${id}-hint` : undefined} className={LOOK} {...rest} />
      <Hint id={`${id}-hint`} text={hint} />
    </div>
  );
}

function Hint({ id, text }: { id: string; text?: string }) {
  return text ? (
    <p id={id} className="mt-1 text-muted">
      {text}
    </p>
  ) : null;
}
