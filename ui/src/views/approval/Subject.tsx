/** All that a question is about: why, the steps, the call, evidence, artifacts, files, the diff. */
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useMemo, useState } from "react";
import { Link } from "react-router";
import { askedPatchQuery } from "@/api/approvals";
import type { Approval } from "@/api/documents";
import { Asked } from "@/parts/Asked";
import { stepAddress } from "@/parts/addresses";
import { Button } from "@/parts/Button";
import { CopyText } from "@/parts/CopyText";
import { LazyPatch } from "@/parts/diff/LazyPatch";
import { plain } from "@/parts/log/ansi";
import { count } from "@/texts/format";
import { t } from "@/texts/texts";
import { ArtifactShown } from "./ArtifactShown";
import { type Program, programOf, type Shown, type ShownCall, type ShownDiff, shownOf } from "./asked";
import type { Drafting } from "./draft";
import { Evidence } from "./Evidence";
import { FilesShown } from "./FilesShown";
import { Pre } from "./Pre";
import { Proposal } from "./Proposal";

const LINES_MAX = 20_000; // of a diff; more are loaded when somebody says so

type Props = { approval: Approval; drafting: Drafting; marks: ReadonlyMap<string, string> | undefined };

export function Subject({ approval, drafting, marks }: Props) {
  const shown = shownOf(approval);
  return (
    <>
      {approval.kind === "plan" ? <Proposal approval={approval} /> : null}
      {shown.reason === null || approval.kind === "plan" ? null : (
        <Section title={t.approval.reason}>
          <Pre label={t.approval.reason} text={plain(shown.reason)} />
          <Link
            to={`${stepAddress(approval.task, approval.step)}?view=attempts`}
            className="self-start text-accent underline"
          >
            {t.approval.attempts}
          </Link>
        </Section>
      )}
      {shown.call === null ? null : <Call call={shown.call} />}
      <Evidence approval={approval} head={shown.head} />
      {shown.artifacts.length === 0 ? null : (
        <Section title={t.approval.artifacts}>
          {shown.artifacts.map((artifact) => (
            <ArtifactShown key={`${artifact.name} ${artifact.digest}`} task={approval.task} artifact={artifact} />
          ))}
        </Section>
      )}
      {shown.files.length === 0 ? null : <Files task={approval.task} shown={shown} />}
      {shown.diff === null ? null : (
        <Section
          title={t.approval.diff}
          note={t.approval.range(shown.diff.base.slice(0, 12), shown.diff.head.slice(0, 12))}
        >
          <Diff approval={approval} diff={shown.diff} drafting={drafting} marks={marks} />
        </Section>
      )}
    </>
  );
}

function Section({ title, note, children }: { title: string; note?: string; children: ReactNode }) {
  return (
    <section aria-label={title} className="flex min-w-0 flex-col gap-2">
      <h2 className="text-base font-semibold">
        {title}
        {note === undefined ? null : (
          <span className="ml-2 font-mono text-[0.86em] font-normal text-muted">{note}</span>
        )}
      </h2>
      {children}
    </section>
  );
}

function Call({ call }: { call: ShownCall }) {
  const program = programOf(call);
  const rest = program?.rest ?? call.args;
  return (
    <Section title={program === null ? t.approval.call : t.approval.program[program.kind]} note={call.name}>
      {program === null ? null : <Pre label={t.approval.program[program.kind]} text={written(program)} />}
      {Object.keys(rest).length === 0 ? null : (
        <dl className="flex flex-col gap-1.5 rounded-lg border border-line bg-surface px-3 py-2">
          {Object.entries(rest).map(([name, value]) => (
            <div key={name} className="flex flex-col gap-0.5">
              <dt className="text-muted">{name}</dt>
              <dd>
                <Pre label={name} text={typeof value === "string" ? value : JSON.stringify(value, null, 2)} bare />
              </dd>
            </div>
          ))}
        </dl>
      )}
    </Section>
  );
}

function written({ kind, text }: Program): string {
  return kind === "command" ? `$ ${text}` : text;
}

/** Without a commit nothing but their names is known. */
function Files({ task, shown: { files, head } }: { task: string; shown: Shown }) {
  return (
    <Section title={t.approval.files} note={head === null ? undefined : t.approval.asOf(head.slice(0, 12))}>
      {files.map((pattern) =>
        head === null ? (
          <CopyText key={pattern} text={pattern} />
        ) : (
          <FilesShown key={pattern} task={task} pattern={pattern} commit={head} />
        ),
      )}
    </Section>
  );
}

type DiffProps = Props & { diff: ShownDiff };

function Diff({ approval, diff, drafting, marks }: DiffProps) {
  const lines = diff.insertions + diff.deletions;
  const [anyway, setAnyway] = useState(lines <= LINES_MAX);
  const { comments } = drafting.draft;
  const { comment: put } = drafting;
  const commenting = useMemo(() => ({ comments, put }), [comments, put]);
  const patch = useQuery({ ...askedPatchQuery(approval.task, approval.step, approval.version), enabled: anyway });
  if (!anyway) {
    return (
      <p className="flex flex-wrap items-center gap-3">
        {t.step.largePatch(count(lines), diff.files)}
        <Button onClick={() => setAnyway(true)}>{t.step.loadPatch}</Button>
      </p>
    );
  }
  return <Asked query={patch}>{(text) => <LazyPatch patch={text} commenting={commenting} marks={marks} />}</Asked>;
}
