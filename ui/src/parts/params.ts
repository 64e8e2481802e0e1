/** What an address names. */
import { useParams } from "react-router";

export function useTaskParam(): string {
  return useParams().task ?? "";
}

export function useStepParam(): string {
  return useParams().step ?? "";
}
