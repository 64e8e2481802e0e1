"""`engine.dispatcher` over HTTP: what a worker asks that has a server in place of a store.

Every call may be sent again.  When the answer to a round is lost, the next one names all that is in hand: what was
reported and recorded is refused, which means that it is over, and what was claimed and never heard of is told again.
A server that does not answer is left alone for a moment, so that whoever asks for many attempts does not wait for each.

Time is the store's, as the server told it last, carried on by this machine's steady clock.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import httpx

from longtask.client.awaiting import Awaiting
from longtask.client.copies import Copies
from longtask.client.course import Limits, unreachable
from longtask.client.problems import Answered, answered, error_of
from longtask.client.shared import CHUNK_BYTES, HOPELESS, Shared, hopeless
from longtask.core.codec import dump_json
from longtask.core.errors import (
    BadPlan,
    LeaseLost,
    LongTaskError,
    NotFound,
    StoreBusy,
    StoreError,
    StoreUnavailable,
)
from longtask.core.model import Json, JsonMap, Stopped
from longtask.core.policy import LEASE_MS
from longtask.engine import wire
from longtask.engine.attempt import monotonic_ms
from longtask.engine.dispatcher import BrokenReport, Claimed, Held, Report, Reported, Round, Wanted
from longtask.engine.outcomes import bounded, masked
from longtask.steps.contract import Assignment
from longtask.store.contract import Beat, Checkpoint, Chunk, JournalRow, Ref, WorkerRow

log = logging.getLogger("longtask.worker")

LIMITS = Limits(connect_s=3.0, answer_s=10.0)
AWAY_MS = 500  # a server that did not answer is not asked again before
WAIT_S = 15  # for work to come
BYTES = "application/octet-stream"
BROKEN = frozenset({"broken-report", "bad-value", "bad-request", "bad-plan", "too-large"})


class ServerDispatcher(Shared):
    """`engine.dispatcher.Elsewhere`.  Used by the threads of one worker."""

    def __init__(
        self,
        url: str | None,
        token: str | None = None,
        *,
        copies: Path,
        name: str | None = None,
        lease_ms: int = LEASE_MS,
        limits: Limits = LIMITS,
    ) -> None:
        """`name`: of the worker; None: one that no other has.  Raises LongTaskError when the server does not answer, or
        does not take the token."""
        super().__init__(url, token, limits=limits)
        self.lease_ms = lease_ms
        self._under = f"/v1/workers/{quote(name or f'w{secrets.token_hex(5)}', safe='')}"
        self._http = httpx.Client(**self.options)
        self._away_until_ms, self._away = 0, ""
        self._ahead_ms = 0  # of the store's clock, against our steady one
        self._held: frozenset[Held] = frozenset()  # claims that were heard of
        self._unsure = False  # the answer to a round was lost, or more is leased to us than we know of
        self._unheard: set[Held] = set()  # reports that were sent in it
        self._doubt_until_ms = 0  # so long a server that was slow may still give something out
        try:
            greeting = self._ask("GET", "")
        except BaseException:
            self._http.close()
            raise
        self.id: str = greeting["worker"]
        self.hub: str | None = greeting["hub"]
        self._copies = Copies(copies)
        self._listening = httpx.Client(**self.options)  # closed by the thread that uses it
        self._awaiting = Awaiting(self._work_comes, self._listening.close)

    def close(self) -> None:
        self._awaiting.close()
        self._http.close()

    # --- `Presence` -----------------------------------------------------------------------------------------------

    def now(self) -> int:
        return monotonic_ms() + self._ahead_ms

    @property
    def hinted(self) -> bool:
        return True

    def wait(self, seconds: float) -> None:
        self._awaiting.wait(seconds)

    def next_due_at(self) -> int | None:
        """The server tells when something falls due."""
        return None

    def worker_seen(self, worker: WorkerRow) -> None:
        body = {
            "host": worker.host,
            "pid": worker.pid,
            "pools": list(worker.pools),
            "slots": worker.slots,
            "started_at": worker.started_at,
            "version": worker.version,
        }
        self._ask("POST", "/seen", lambda: body)

    def worker_gone(self, worker_id: str) -> None:
        self._ask("POST", "/gone", dict)

    def forget_workers(self, before: int, limit: int) -> int:
        """Whoever has a store does so."""
        return 0

    # --- rounds ---------------------------------------------------------------------------------------------------

    def has_work(self, wanted: Wanted | None) -> bool:
        heard = self._awaiting.heard(wanted.pools if wanted is not None and wanted.slots else ())
        return self._unsure or heard

    def _work_comes(self, pools: Sequence[str]) -> bool:
        query = urlencode({"pool": list(pools)}, doseq=True)
        timeout = httpx.Timeout(WAIT_S + self.limits.answer_s, connect=self.limits.connect_s)
        prefer = {"Prefer": f"wait={WAIT_S}"}
        told = self._ask("GET", f"/work?{query}", headers=prefer, timeout=timeout, http=self._listening)
        return bool(told["work"])

    def round(self, worker: str, reports: Sequence[Report], wanted: Wanted | None) -> Round:
        texts = [self._text_of(place, report) for place, report in enumerate(reports)]
        claims: list[Claimed] = []
        try:
            told = self._told(texts, [Held(report.ref, report.attempt) for report in reports], wanted)
            claims = [*told.found, *(one.claimed for one in told.reported if one.claimed is not None)]
            return told
        except LongTaskError as error:
            if not reports or not _broken(error):
                raise
            if len(reports) == 1:
                raise BrokenReport(0) from error
        finally:
            self._awaiting.taken(bool(claims))
        first = self.round(worker, reports[:1], None)  # one by one, to find which it is
        return Round([*first.reported, *[Reported(over=False)] * (len(reports) - 1)], first.found, False)

    def _told(self, texts: Sequence[JsonMap], named: Sequence[Held], wanted: Wanted | None) -> Round:
        sent = False

        def body() -> JsonMap:
            nonlocal sent
            held = [wire.held_map(one) for one in self._held] if self._unsure else None
            self._unheard.update(named if sent else ())
            sent = self._unsure = True
            asked = None if wanted is None else _wanted_map(wanted)
            return {"lease_ms": self.lease_ms, "reports": texts, "wanted": asked, "held": held}

        try:
            told = self._ask("POST", "/rounds", body)
        except (StoreBusy, StoreError):
            self._unheard.update(named)
            self._doubt_until_ms = monotonic_ms() + self.lease_ms
            raise
        reported = [
            self._heard(one, wire.reported_of(answer)) for one, answer in zip(named, told["reported"], strict=True)
        ]
        found = [wire.claimed_of(claim) for claim in told["found"]]
        claims = [*found, *(one.claimed for one in reported if one.claimed is not None)]
        self._unsure = False
        self._unheard.clear()
        over = {one for one, answer in zip(named, reported, strict=True) if answer.over}
        self._held = (self._held - over) | {Held(claim.ref, claim.step.attempt) for claim in claims}
        return Round(reported, found, bool(told["searched"]))

    def _heard(self, named: Held, reported: Reported) -> Reported:
        if named in self._unheard and reported.refused is not None:
            log.info("report.repeated task=%s step=%s: the first answer was lost", *named.ref)
            return Reported()
        return reported

    def _text_of(self, place: int, report: Report) -> JsonMap:
        """As it is sent; large results go before it.  Raises BrokenReport, StoreUnavailable."""
        try:
            outcome = bounded(masked(report.outcome), lambda value: self._kept(report, value))
            text = wire.report_map(replace(report, outcome=outcome))
            dump_json(text)
        except LeaseLost:
            return wire.report_map(replace(report, outcome=Stopped()))
        except (StoreBusy, StoreError):
            raise
        except Exception as error:  # whatever it is, JSON cannot hold it, or the server does not take it
            raise BrokenReport(place) from error
        return text

    def _kept(self, report: Report, value: Json) -> str:
        return str(self._put(report.ref, report.attempt, dump_json(value).encode())["digest"])

    # --- attempts -------------------------------------------------------------------------------------------------

    def brief(self, claimed: Claimed) -> Assignment:
        """With local copies of the artifacts that it names."""
        under = _of_attempt(claimed.ref, claimed.step.attempt)
        assignment = wire.assignment_of(self._ask("GET", f"{under}/assignment"))
        for artifact in assignment.artifacts:
            try:
                self._fetch(claimed, artifact["digest"], artifact["size_bytes"])
            except NotFound as error:  # whoever needs it notes that it is not there
                log.warning("artifact.missing task=%s name=%s: %s", claimed.task.id, artifact["name"], error)
        return assignment

    def beats(self, held: Sequence[Held]) -> Sequence[Beat | Exception | None]:
        if not held and monotonic_ms() > self._doubt_until_ms:
            return []
        body = {"lease_ms": self.lease_ms, "held": [wire.held_map(one) for one in held]}
        told = self._ask("POST", "/beats", lambda: body)
        if told["strays"] and self._held <= set(held):  # or a round is answered just now, and the next finds nothing
            self._unsure = True
        return [Beat(answer["stop"]) if answer["held"] else None for answer in told["answers"]]

    def journal_started(self, ref: Ref, attempt: int, run: int, row: JournalRow) -> bool:
        return self._write(ref, attempt, "journal", _turn_map(row))

    def journal_done(self, ref: Ref, attempt: int, run: int, row: JournalRow) -> bool:
        cost = {"tokens_in": row.tokens_in, "tokens_out": row.tokens_out, "micros": row.micros}
        return self._write(ref, attempt, "journal", {**_turn_map(row), "done": True, "body": row.body, **cost})

    def checkpoint(self, ref: Ref, checkpoint: Checkpoint) -> bool:
        body = {"position": checkpoint.position, "tree": checkpoint.tree}
        return self._write(ref, checkpoint.attempt, "checkpoint", body)

    def output(self, ref: Ref, attempt: int, chunks: Sequence[Chunk]) -> bool:
        sent = [{"n": c.n, "stream": c.stream, "body": base64.b64encode(c.body).decode()} for c in chunks]
        return self._write(ref, attempt, "output", {"chunks": sent})

    def drop_output(self, ref: Ref, attempt: int, numbers: range) -> bool:
        return self._write(ref, attempt, "output", {"drop": [numbers.start, numbers.stop]})

    def progress(self, ref: Ref, attempt: int, done: int, total: int, text: str) -> bool:
        return self._write(ref, attempt, "progress", {"done": done, "total": total, "text": text})

    def put_artifact(self, claimed: Claimed, body: bytes, media_type: str) -> JsonMap:
        return self._put(claimed.ref, claimed.step.attempt, body)

    def read_artifact(self, claimed: Claimed, digest: str) -> bytes:
        self._fetch(claimed, digest, None)
        return self._copies.path(claimed.task.workspace_id, digest).read_bytes()

    def path(self, workspace_id: str, digest: str) -> Path:
        return self._copies.path(workspace_id, digest)

    def _write(self, ref: Ref, attempt: int, what: str, body: JsonMap) -> bool:
        try:
            return bool(self._ask("POST", f"{_of_attempt(ref, attempt)}/{what}", lambda: body)["held"])
        except LeaseLost:
            return False

    # --- artifacts ------------------------------------------------------------------------------------------------

    def _put(self, ref: Ref, attempt: int, body: bytes) -> JsonMap:
        digest = hashlib.sha256(body).hexdigest()
        told = self._ask("PUT", f"{_of_attempt(ref, attempt)}/artifacts/{digest}", content=body)
        return {"digest": told["digest"], "size_bytes": told["size_bytes"]}

    def _fetch(self, claimed: Claimed, digest: str, size_bytes: int | None) -> None:
        workspace = claimed.task.workspace_id
        if self._copies.has(workspace, digest):
            return
        address = f"{self.url}{self._under}{_of_attempt(claimed.ref, claimed.step.attempt)}/artifacts/{digest}"
        try:
            with self._http.stream("GET", address, headers={"Accept-Encoding": "identity"}) as got:
                if not got.is_success:
                    raise self._error_of(got.status_code, got.headers, got.read())
                most = size_bytes if size_bytes is not None else int(got.headers.get("content-length", "0"))
                self._copies.keep(workspace, digest, got.iter_bytes(CHUNK_BYTES), most)
        except httpx.RequestError as error:
            raise unreachable(self.url, error) from error

    # --- how things are sent --------------------------------------------------------------------------------------

    def _ask(
        self,
        method: str,
        path: str,
        body: Callable[[], JsonMap] | None = None,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: httpx.Timeout | None = None,
        http: httpx.Client | None = None,
    ) -> Any:
        """The answer.  Raises StoreUnavailable when there is none, and what a problem says."""
        if monotonic_ms() < self._away_until_ms:
            raise StoreUnavailable(self._away)
        for last in (False, True):
            sent = dict(headers or {})
            if body is not None:
                content, sent["Content-Type"] = dump_json(body()).encode(), "application/json"
            elif content is not None:
                sent["Content-Type"] = BYTES
            given: Any = httpx.USE_CLIENT_DEFAULT if timeout is None else timeout
            try:
                got = (http or self._http).request(
                    method, self.url + self._under + path, content=content, headers=sent, timeout=given
                )
            except HOPELESS as error:
                raise hopeless(error) from error
            except (httpx.ConnectError, httpx.TimeoutException) as error:
                raise self._unreachable(error) from error
            except httpx.RequestError as error:  # a connection that was cut, or had been kept for too long
                if last:
                    raise self._unreachable(error) from error
            else:
                break
        if not got.is_success:
            raise self._error_of(got.status_code, got.headers, got.content)
        try:
            told = json.loads(got.content)
        except ValueError as error:
            raise LongTaskError(f"{self.url!r} does not answer as a server of LongTask does: no JSON") from error
        if isinstance(told, dict) and isinstance(told.get("now"), int):
            self._ahead_ms = told["now"] - monotonic_ms()
        return told

    def _unreachable(self, error: Exception) -> LongTaskError:
        found = unreachable(self.url, error)
        self._away_until_ms, self._away = monotonic_ms() + AWAY_MS, str(found)
        return found

    def _error_of(self, status: int, headers: Mapping[str, str], body: bytes) -> LongTaskError:
        return error_of(answered(status, headers.get("content-type", ""), body), self.url)


def _of_attempt(ref: Ref, attempt: int) -> str:
    return f"/attempts/{quote(ref.task_id, safe='')}/{quote(ref.step, safe='')}/{attempt}"


def _turn_map(row: JournalRow) -> JsonMap:
    return {"n": row.n, "kind": row.kind, "name": row.name, "fingerprint": row.fingerprint}


def _wanted_map(wanted: Wanted) -> JsonMap:
    return {"pools": list(wanted.pools), "slots": wanted.slots, "alone": wanted.alone}


def _broken(error: LongTaskError) -> bool:
    """The server does not take what was reported, and never will."""
    cause = error.__cause__
    return isinstance(error, BadPlan) and isinstance(cause, Answered) and cause.slug in BROKEN
