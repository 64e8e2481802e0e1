/** An answer, with all that goes with it: what it will do, a text, comments on lines, what is put in the place of it. */
import { Trash2 } from "lucide-react";
import { type ReactNode, useState } from "react";
import { decide } from "@/api/approvals";
import type { Approval, Decision } from "@/api/documents";
import { isChanged } from "@/api/problem";
import { ActDialog } from "@/parts/ActDialog";
import { useAct } from "@/parts/act";
import { needsText } from "@/parts/answers";
import { decisionText, placeText } from "@/parts/diff/comments";
import { Field, TextField } from "@/parts/Field";
import { count } from "@/texts/format";
import { t, worded } from "@/texts/texts";
import { isWords, shownOf } from "./asked";
import type { Drafting, Edited } from "./draft";

const TEXT_MAX = 20_000; // the server takes no longer one
const DANGER: ReadonlySet<string> = new Set(["reject", "give_up"]);

type Props = {
  approval: Approval;
  answer: string;
  drafting: Drafting;
  changed: (now: Approval) => void;
  onClose: () => void;
};

export function AnswerDialog({ approval, answer, drafting, changed, onClose }: Props) {
  const { task, step } = approval;
  const { draft, say, edit, comment } = drafting;
  const call = shownOf(approval).call;
  const [json, setJson] = useState(call !== null);
  const [commit, setCommit] = useState("");
  const act = useAct(
    task,
    async (decision: Decision) => {
      try {
        await decide(task, step, `"${approval.version}"`, decision);
      } catch (error) {
        if (isChanged(error) && isApproval(error.current)) changed(error.current);
        throw error;
      }
      drafting.drop();
    },
    () => t.inbox.decided(step, worded(t.words.answer, answer)),
  );

  const text = decisionText(draft.said, draft.comments);
  const edited = editedText(approval, draft.edited);
  const value = editedValue(edited, json);
  const word = worded(t.words.answer, answer);
  const needed = needsText(approval, answer);
  const tooLong = text.length > TEXT_MAX;
  const ready =
    (!needed || text !== "") &&
    !tooLong &&
    (answer !== "edit" || (edited.trim() !== "" && value !== undefined)) &&
    (answer !== "resolve" || commit.trim() !== "");
  const decision: Decision = {
    answer,
    text,
    ...(answer === "edit" ? { edited: value } : {}),
    ...(answer === "resolve" ? { commit: commit.trim() } : {}),
  };
  return (
    <ActDialog
      title={`${word}: ${step}`}
      why={effectOf(approval, answer)}
      word={word}
      act={act}
      value={decision}
      danger={DANGER.has(answer)}
      ready={ready}
      onClose={onClose}
    >
      {answer === "edit" ? (
        <div className="flex flex-col gap-1.5">
          <TextField
            label={call === null ? t.approval.edited : t.approval.editedCall(call.name)}
            rows={8}
            spellCheck={false}
            autoFocus
            className="w-full rounded-md border border-line-strong bg-surface px-2.5 py-1.5 font-mono text-[12px] max-sm:text-base"
            value={edited}
            aria-invalid={value === undefined}
            onChange={(event) => edit({ version: approval.version, text: event.target.value })}
          />
          <div className="flex flex-wrap items-center gap-x-4">
            <Choice label={t.approval.asJson} chosen={json} choose={() => setJson(true)} />
            <Choice label={t.approval.asText} chosen={!json} choose={() => setJson(false)} />
            <span role="status" className="text-bad">
              {value === undefined && edited.trim() !== "" ? t.approval.noJson : ""}
            </span>
          </div>
        </div>
      ) : null}
      {answer === "resolve" ? (
        <Field
          label={t.approval.commit}
          hint={t.approval.commitHint}
          autoFocus
          value={commit}
          onChange={(event) => setCommit(event.target.value)}
        />
      ) : null}
      <TextField
        label={answer === "reject" ? t.inbox.reason : answer === "respond" ? t.approval.response : t.inbox.note}
        hint={answer === "reject" ? t.inbox.reasonHint : undefined}
        required={needed && draft.comments.length === 0}
        rows={4}
        autoFocus={answer !== "edit" && answer !== "resolve"}
        value={draft.said}
        onChange={(event) => say(event.target.value)}
      />
      {draft.comments.length === 0 ? null : (
        <Comments title={t.approval.withComments(draft.comments.length)}>
          {draft.comments.map((one) => (
            <li key={placeText(one.path, one.line, one.side)} className="flex items-start gap-2 px-2 py-1">
              <span className="min-w-0 flex-1 break-words whitespace-pre-wrap">
                <code className="font-mono text-[0.93em] text-muted">{placeText(one.path, one.line, one.side)}:</code>{" "}
                {one.text}
              </span>
              <button
                type="button"
                aria-label={`${t.diff.remove}: ${placeText(one.path, one.line, one.side)}`}
                onClick={() => comment({ ...one, text: "" })}
                className="rounded p-1 text-muted hover:text-ink"
              >
                <Trash2 size={14} aria-hidden />
              </button>
            </li>
          ))}
        </Comments>
      )}
      {tooLong ? <p className="text-bad">{t.approval.tooLong(count(text.length), count(TEXT_MAX))}</p> : null}
    </ActDialog>
  );
}

function Choice({ label, chosen, choose }: { label: string; chosen: boolean; choose: () => void }) {
  return (
    <label className="inline-flex items-center gap-1.5">
      <input type="radio" name="form" checked={chosen} onChange={choose} />
      {label}
    </label>
  );
}

function Comments({ title, children }: { title: string; children: ReactNode }) {
  return (
    <div>
      <p className="mb-1 font-medium">{title}</p>
      <ul className="max-h-48 divide-y divide-line overflow-y-auto rounded-md border border-line">{children}</ul>
    </div>
  );
}

/** Arguments of another call are never those of this one. */
function editedText(approval: Approval, begun: Edited | null): string {
  const call = shownOf(approval).call;
  if (begun !== null && (call === null || begun.version === approval.version)) return begun.text;
  return call === null ? "" : JSON.stringify(call.args, null, 2);
}

/** Undefined: it is no JSON. */
function editedValue(text: string, json: boolean): unknown {
  if (!json) return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** Of a call that an agent asks about, an answer does something else than of a question of the plan. */
function effectOf(approval: Approval, answer: string): string {
  const ofCall = shownOf(approval).call === null ? undefined : t.approval.callEffect[answer];
  const ofPlan = approval.kind === "plan" ? t.hands.planEffect[answer] : undefined;
  return ofCall ?? ofPlan ?? t.approval.effect[answer] ?? worded(t.words.effect, answer);
}

function isApproval(value: unknown): value is Approval {
  return isWords(value) && typeof value.version === "string" && isWords(value.question);
}
