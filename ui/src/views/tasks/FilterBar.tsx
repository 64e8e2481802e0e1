/** Filters: each change is a change of the address. */
import { useQuery } from "@tanstack/react-query";
import { type InputHTMLAttributes, useEffect, useState } from "react";
import { useSearchParams } from "react-router";
import { workspacesQuery } from "@/api/installation";
import { Button } from "@/parts/Button";
import { t } from "@/texts/texts";
import { changed } from "./filters";

const TYPED_MS = 300; // after the last key
const LOOK = "min-h-8 rounded-md border border-line-strong bg-surface px-2 max-sm:text-base";

export function FilterBar() {
  const [params, setParams] = useSearchParams();
  const workspaces = useQuery(workspacesQuery());
  const set = (key: string, value: string | null) =>
    setParams((before) => changed(before, key, value), { replace: true });
  const open = params.get("open") === "true";
  return (
    <div role="search" aria-label={t.tasks.filter} className="mb-3 flex flex-wrap items-center gap-2">
      <Typed data-search name="name" label={t.tasks.name} value={params.get("name") ?? ""} set={set} />
      <select
        aria-label={t.tasks.status}
        className={LOOK}
        value={params.get("status") ?? ""}
        onChange={(event) => set("status", event.target.value)}
      >
        <option value="">{t.tasks.anyStatus}</option>
        {Object.entries(t.words.status).map(([word, text]) => (
          <option key={word} value={word}>
            {text}
          </option>
        ))}
      </select>
      {workspaces.data && workspaces.data.items.length > 1 ? (
        <select
          aria-label={t.tasks.workspace}
          className={`${LOOK} max-w-56`}
          value={params.get("workspace") ?? ""}
          onChange={(event) => set("workspace", event.target.value)}
        >
          <option value="">{t.tasks.anyWorkspace}</option>
          {workspaces.data.items.map((workspace) => (
            <option key={workspace.id} value={workspace.id}>
              {workspace.repository}
            </option>
          ))}
        </select>
      ) : null}
      <Typed name="by" label={t.tasks.by} value={params.get("by") ?? ""} set={set} />
      <label className="inline-flex items-center gap-1.5">
        <input type="checkbox" checked={open} onChange={(event) => set("open", event.target.checked ? "true" : null)} />
        {t.tasks.open}
      </label>
      {params.size > 0 ? (
        <Button look="quiet" onClick={() => setParams({}, { replace: true })}>
          {t.tasks.clear}
        </Button>
      ) : null}
    </div>
  );
}

type TypedProps = { name: string; label: string; value: string; set: (key: string, value: string | null) => void };

/** The address follows when one has stopped typing. */
function Typed({
  name,
  label,
  value,
  set,
  ...rest
}: TypedProps & Omit<InputHTMLAttributes<HTMLInputElement>, "value">) {
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  useEffect(() => {
    if (typed === value) return;
    const timer = setTimeout(() => set(name, typed), TYPED_MS);
    return () => clearTimeout(timer);
  });
  return (
    <input
      {...rest}
      type="search"
      aria-label={label}
      placeholder={label}
      className={`${LOOK} w-40`}
      value={typed}
      onChange={(event) => setTyped(event.target.value)}
    />
  );
}
