/** What a task has made, and one of it to look at. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Download } from "lucide-react";
import { Link, useParams, useSearchParams } from "react-router";
import { artifactsQuery } from "@/api/artifacts";
import type { Artifact } from "@/api/documents";
import { Asked } from "@/parts/Asked";
import { artifactAddress, stepAddress } from "@/parts/addresses";
import { Button, buttonClass } from "@/parts/Button";
import { Empty } from "@/parts/Empty";
import { notify } from "@/parts/notices";
import { useTaskParam } from "@/parts/params";
import { moveAmongRows } from "@/parts/rows";
import { bytes } from "@/texts/format";
import { t } from "@/texts/texts";
import { plainAddress, save } from "./download";
import { ArtifactPreview } from "./ArtifactPreview";

export function ArtifactsView() {
  const task = useTaskParam();
  const { name } = useParams();
  const [params, setParams] = useSearchParams();
  const all = params.get("all") === "1";
  const found = useQuery(artifactsQuery(task, all));
  return (
    <>
      <label className="mb-2 inline-flex items-center gap-1.5 self-start">
        <input
          type="checkbox"
          checked={all}
          onChange={(event) => setParams(event.target.checked ? { all: "1" } : {}, { replace: true })}
        />
        {t.artifacts.all}
      </label>
      <Asked query={found}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title={t.artifacts.none}>{all ? null : t.artifacts.noneWhy}</Empty>
          ) : (
            <div className="flex flex-col gap-4 lg:flex-row lg:items-start">
              <List task={task} items={items} chosen={name} search={params.toString()} />
              <Chosen task={task} artifact={items.find((item) => item.name === name)} name={name} />
            </div>
          )
        }
      </Asked>
    </>
  );
}

type ListProps = { task: string; items: readonly Artifact[]; chosen: string | undefined; search: string };

function List({ task, items, chosen, search }: ListProps) {
  return (
    <ul
      aria-label={t.task.tabs.artifacts}
      onKeyDown={moveAmongRows}
      className="w-full divide-y divide-line rounded-lg border border-line bg-surface max-lg:max-h-[40dvh] max-lg:overflow-y-auto lg:w-80 lg:shrink-0"
    >
      {items.map((item) => (
        <li key={item.name}>
          <Link
            data-row
            to={{ pathname: artifactAddress(task, item.name), search }}
            aria-current={item.name === chosen ? "true" : undefined}
            className="block px-3 py-1.5 hover:bg-raised aria-[current=true]:bg-accent-soft"
          >
            <span className="flex justify-between gap-3">
              <span className="min-w-0 font-medium break-words">{item.name}</span>
              <span className="shrink-0 text-muted tabular-nums">{bytes(item.size_bytes)}</span>
            </span>
            <span className="flex justify-between gap-3 text-muted">
              <span className="truncate">{t.artifacts.of(item.step)}</span>
              <span className="truncate">{item.media_type}</span>
            </span>
          </Link>
        </li>
      ))}
    </ul>
  );
}

function Chosen({ task, artifact, name }: { task: string; artifact: Artifact | undefined; name: string | undefined }) {
  if (artifact === undefined) {
    return (
      <div className="min-w-0 flex-1">
        <Empty title={name === undefined ? t.artifacts.choose : t.artifacts.gone(name)} />
      </div>
    );
  }
  return (
    <section aria-label={artifact.name} className="min-w-0 flex-1 rounded-lg border border-line bg-surface">
      <header className="flex flex-wrap items-center gap-x-4 gap-y-1 border-b border-line px-4 py-2">
        <h2 className="font-semibold break-all">{artifact.name}</h2>
        <span className="text-muted tabular-nums">{bytes(artifact.size_bytes)}</span>
        <span className="text-muted">{artifact.media_type}</span>
        <Link to={stepAddress(task, artifact.step)} className="text-accent underline">
          {artifact.step}
        </Link>
        <span className="ml-auto">
          <Save task={task} artifact={artifact} />
        </span>
      </header>
      <div className="p-4">
        <ArtifactPreview key={artifact.digest} task={task} artifact={artifact} />
      </div>
    </section>
  );
}

function Save({ task, artifact }: { task: string; artifact: Artifact }) {
  const client = useQueryClient();
  const address = plainAddress(task, artifact);
  const icon = <Download size={14} aria-hidden />;
  if (address !== null) {
    return (
      <a href={address} download className={buttonClass("plain")}>
        {icon}
        {t.artifacts.download}
      </a>
    );
  }
  return (
    <Button
      icon={icon}
      onClick={() => void save(client, task, artifact).catch((error: unknown) => notify(String(error)))}
    >
      {t.artifacts.download}
    </Button>
  );
}
