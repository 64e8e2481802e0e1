import { t } from "@/texts/texts";

export function Loading() {
  return (
    <p role="status" className="px-1 py-4 text-muted">
      {t.parts.loading}
    </p>
  );
}
