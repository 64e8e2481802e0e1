/** What the caller may do.  The server decides; the page says so beforehand. */
import { useQuery } from "@tanstack/react-query";
import { whoQuery } from "@/api/installation";

/** True too while it is not known. */
export function useMay(role: "operator" | "approver"): boolean {
  const who = useQuery(whoQuery());
  if (!who.data) return true;
  return who.data.roles.includes(role) || who.data.roles.includes("admin");
}
