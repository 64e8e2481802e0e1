import type { ButtonHTMLAttributes, ReactNode } from "react";

export type ButtonLook = "plain" | "main" | "danger" | "quiet";

const LOOKS: Readonly<Record<ButtonLook, string>> = {
  plain: "border border-line bg-surface hover:border-line-strong",
  main: "border border-transparent bg-accent text-accent-ink font-medium hover:opacity-90",
  danger: "border border-bad text-bad bg-surface hover:bg-bad-soft",
  quiet: "border border-transparent text-muted hover:bg-raised hover:text-ink",
};

type Props = ButtonHTMLAttributes<HTMLButtonElement> & { look?: ButtonLook; icon?: ReactNode };

export function Button({ look = "plain", icon, children, className = "", ...rest }: Props) {
  return (
    <button type="button" {...rest} className={`${buttonClass(look)} ${className}`}>
      {icon}
      {children}
    </button>
  );
}

/** For a link that looks like a button. */
export function buttonClass(look: ButtonLook): string {
  return `inline-flex min-h-8 items-center justify-center gap-1.5 rounded-md px-2.5 py-1 whitespace-nowrap disabled:opacity-50 pointer-coarse:min-h-10 ${LOOKS[look]}`;
}
