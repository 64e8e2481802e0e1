/** An act of a person: sent once, told when it is done, and what it touches is asked anew. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { keys } from "@/api/keys";
import { isChanged } from "@/api/problem";
import { t } from "@/texts/texts";
import { notify } from "./notices";

/** `said`: what the person is told when it is done. */
export function useAct<V>(task: string, act: (value: V) => Promise<unknown>, said: (value: V) => string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: act,
    onSuccess: (_, value) => notify(said(value)),
    onError: (error) => {
      if (isChanged(error)) notify(t.problem.notCounted); // whatever showed the act may be gone with what it was about
    },
    onSettled: () => {
      for (const queryKey of [keys.task(task), keys.tasks, keys.approvals]) void client.invalidateQueries({ queryKey });
    },
  });
}
