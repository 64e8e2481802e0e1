/** What an act will do, said before it is done. */
import type { UseMutationResult } from "@tanstack/react-query";
import type { FormEvent, ReactNode } from "react";
import { t } from "@/texts/texts";
import { Button } from "./Button";
import { Dialog } from "./Dialog";
import { ProblemNote } from "./ProblemNote";

type Props<V> = {
  title: string;
  /** What it will do. */
  why: string;
  /** The word on the button that does it. */
  word: string;
  act: UseMutationResult<unknown, Error, V>;
  value: V;
  danger?: boolean;
  children?: ReactNode;
  /** There is nothing to fill in: the button is what one comes to first. */
  bare?: boolean;
  ready?: boolean;
  wide?: boolean;
  onClose: () => void;
};

export function ActDialog<V>({
  title,
  why,
  word,
  act,
  value,
  danger,
  children,
  bare,
  ready = true,
  wide,
  onClose,
}: Props<V>) {
  const submit = (event: FormEvent) => {
    event.preventDefault();
    act.mutate(value, { onSuccess: onClose });
  };
  return (
    <Dialog title={title} wide={wide} onClose={onClose}>
      <form onSubmit={submit} className="flex flex-col gap-3">
        <p>{why}</p>
        {children}
        {act.error === null ? null : <ProblemNote error={act.error} />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>{t.parts.cancel}</Button>
          <Button
            type="submit"
            look={danger ? "danger" : "main"}
            disabled={act.isPending || !ready}
            autoFocus={bare ?? !children}
          >
            {word}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
