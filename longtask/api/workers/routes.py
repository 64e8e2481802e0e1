"""Under /v1/workers: the calls of one worker, for attempts that it has claimed itself."""

import hashlib
from tempfile import SpooledTemporaryFile
from typing import Annotated, BinaryIO, cast
from urllib.parse import urlsplit, urlunsplit

from anyio.to_thread import run_sync
from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import FileResponse

from longtask import __version__
from longtask.api.access.caller import Caller, Role, needs
from longtask.api.bytes import CONTENT, guarded
from longtask.api.documents.shape import answers
from longtask.api.problems import Document, Problem
from longtask.api.server import Server
from longtask.api.sight import StepKey
from longtask.api.workers import shapes
from longtask.api.workers.desk import WorkersDesk, whole_name
from longtask.core.codec import dump_json
from longtask.core.errors import NotFound
from longtask.engine import wire
from longtask.store.contract import Checkpoint, Chunk, JournalRow, Ref, WorkerRow

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
WAIT_MAX_S = 20.0
SPOOLED_BYTES_MAX = 1 << 20  # of an artifact that comes; what is more lies on the disk

Worker = Annotated[Caller, needs(Role.WORKER)]
WorkerName = Annotated[str, Path(pattern=NAME, description="As it names itself.", examples=["w3f9a1c"])]
TaskId = Annotated[str, Path(max_length=100, description="Its id.")]
Attempt = Annotated[int, Path(ge=1, le=2**31 - 1)]
Digest = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="SHA-256 of the bytes.")]
BODY = {"requestBody": {"required": True, "content": {"application/octet-stream": CONTENT["*/*"]}}}
OF_ATTEMPT = "/workers/{worker}/attempts/{task}/{step}/{attempt}"


def router(server: Server) -> APIRouter:
    routes = APIRouter(tags=["workers"])
    desk = WorkersDesk(server.parts)
    server.services.append(desk.serve)
    _presence(routes, server)
    _rounds(routes, desk)
    _attempts(routes, desk)
    _artifacts(routes, desk)
    return routes


def without_credentials(hub: str | None) -> str | None:
    """The password of an address goes, and of the web's the name too; that of ssh says whose account it is."""
    if hub is None or "://" not in hub:
        return hub
    parts = urlsplit(hub)
    who, at, place = parts.netloc.rpartition("@")
    kept = who.partition(":")[0] + at if parts.scheme not in ("http", "https") else ""
    return urlunsplit(parts._replace(netloc=kept + place, query="", fragment=""))


# --- that it is there ---------------------------------------------------------------------------------------------


def _presence(routes: APIRouter, server: Server) -> None:
    store = server.parts.store

    @routes.get("/workers/{worker}", responses=answers(shapes.Greeting))
    def greet_worker(caller: Worker, worker: WorkerName) -> Document:
        """What a worker is told when it begins."""
        hub = without_credentials(server.parts.config.hub)
        return Document({"worker": whole_name(caller, worker), "hub": hub, "version": __version__, "now": store.now()})

    @routes.post("/workers/{worker}/seen", responses=answers(shapes.Known))
    def see_worker(caller: Worker, worker: WorkerName, asked: shapes.Seen) -> Document:
        """It is there; `longtask fleet` shows it."""
        now = store.now()
        row = WorkerRow(
            whole_name(caller, worker),
            asked.host,
            asked.pid,
            tuple(asked.pools),
            asked.slots,
            min(asked.started_at, now),
            version=asked.version,
        )
        store.worker_seen(row)
        return Document({"now": now})

    @routes.post("/workers/{worker}/gone", responses=answers(shapes.Known))
    def miss_worker(caller: Worker, worker: WorkerName) -> Document:
        """It is there no more."""
        store.worker_gone(whole_name(caller, worker))
        return Document({"now": store.now()})

    @routes.get("/workers/{worker}/work", responses=answers(shapes.Work))
    async def await_work(
        caller: Worker,
        request: Request,
        worker: WorkerName,
        pool: Annotated[list[str], Query(min_length=1, max_length=shapes.POOLS_MAX)],
    ) -> Document:
        """Whether a round may bring something; with `Prefer: wait=SECONDS` (RFC 7240), as soon as one may."""
        pools = [name for name in pool if "\0" not in name]
        work = await server.waiting.for_work(pools, caller.workspaces, wait_s(request.headers.get("prefer", "")))
        return Document({"work": work, "now": await run_sync(store.now)})


def wait_s(prefer: str) -> float:
    for preference in prefer.split(","):
        name, _, value = preference.partition("=")
        if name.strip().lower() == "wait" and value.strip().isascii() and value.strip().isdigit():
            return min(float(value.strip()[:6]), WAIT_MAX_S)
    return 0.0


def _rounds(routes: APIRouter, desk: WorkersDesk) -> None:
    @routes.post("/workers/{worker}/rounds", responses=answers(shapes.RoundTold))
    def make_round(caller: Worker, worker: WorkerName, asked: shapes.Round) -> Document:
        """Report what attempts have come to, and claim steps, in one commit.

        Safe to send again: what is recorded is refused the second time, and with `held` a claim whose answer was lost
        is told again."""
        return Document(desk.round(caller, worker, asked))

    @routes.post("/workers/{worker}/beats", responses=answers(shapes.BeatsTold))
    def beat_attempts(caller: Worker, worker: WorkerName, asked: shapes.Beats) -> Document:
        """Prolong the leases of attempts; of each: whether it still has one, and whether it is asked to stop."""
        return Document(desk.beats(caller, worker, asked))


# --- an attempt ---------------------------------------------------------------------------------------------------


def _attempts(routes: APIRouter, desk: WorkersDesk) -> None:
    @routes.get(f"{OF_ATTEMPT}/assignment", responses=answers(shapes.Assignment))
    def brief_attempt(caller: Worker, worker: WorkerName, task: TaskId, step: StepKey, attempt: Attempt) -> Response:
        """What an attempt needs to be carried out."""
        row = desk.own(caller, worker, task, step, attempt)
        assignment = desk.dispatch(caller).brief(desk.claimed(row, task))
        return Response(dump_json(wire.assignment_map(assignment)), media_type="application/json")

    @routes.post(f"{OF_ATTEMPT}/journal", responses=answers(shapes.Kept))
    def keep_turn(
        caller: Worker, worker: WorkerName, task: TaskId, step: StepKey, attempt: Attempt, asked: shapes.Turn
    ) -> Document:
        """A turn or a tool call begins, or has ended with what it cost; the same again costs nothing."""
        run = desk.own(caller, worker, task, step, attempt).run
        dispatch, ref = desk.dispatch(caller), Ref(task, step)
        begun = (asked.n, asked.kind, asked.name, asked.fingerprint, attempt)
        if not asked.done:
            return kept(dispatch.journal_started(ref, attempt, run, JournalRow(*begun)))
        row = JournalRow(*begun, asked.body, asked.tokens_in, asked.tokens_out, asked.micros)
        return kept(dispatch.journal_done(ref, attempt, run, row))

    @routes.post(f"{OF_ATTEMPT}/checkpoint", responses=answers(shapes.Kept))
    def keep_checkpoint(
        caller: Worker, worker: WorkerName, task: TaskId, step: StepKey, attempt: Attempt, asked: shapes.Checkpoint
    ) -> Document:
        """From here the run can go on, on any machine."""
        run = desk.own(caller, worker, task, step, attempt).run
        checkpoint = Checkpoint(run, asked.position, asked.tree, attempt)
        return kept(desk.dispatch(caller).checkpoint(Ref(task, step), checkpoint))

    @routes.post(f"{OF_ATTEMPT}/output", responses=answers(shapes.Kept))
    def keep_output(
        caller: Worker, worker: WorkerName, task: TaskId, step: StepKey, attempt: Attempt, asked: shapes.Output
    ) -> Document:
        """What it has written, in numbered chunks."""
        desk.own(caller, worker, task, step, attempt)
        dispatch, ref = desk.dispatch(caller), Ref(task, step)
        held = True
        if asked.chunks:
            held = dispatch.output(ref, attempt, [Chunk(c.n, c.stream, c.body) for c in asked.chunks])
        if held and asked.drop is not None:
            held = dispatch.drop_output(ref, attempt, range(*asked.drop))
        return kept(held)

    @routes.post(f"{OF_ATTEMPT}/progress", responses=answers(shapes.Kept))
    def tell_progress(
        caller: Worker, worker: WorkerName, task: TaskId, step: StepKey, attempt: Attempt, asked: shapes.Progress
    ) -> Document:
        """How far it has come."""
        desk.own(caller, worker, task, step, attempt)
        ref = Ref(task, step)
        return kept(desk.dispatch(caller).progress(ref, attempt, asked.done, asked.total, asked.text))


def kept(held: bool) -> Document:
    return Document({"held": held})


# --- artifacts ----------------------------------------------------------------------------------------------------


def _artifacts(routes: APIRouter, desk: WorkersDesk) -> None:
    @routes.put(f"{OF_ATTEMPT}/artifacts/{{digest}}", responses=answers(shapes.ArtifactKept), openapi_extra=BODY)
    async def keep_for_attempt(
        caller: Worker,
        request: Request,
        worker: WorkerName,
        task: TaskId,
        step: StepKey,
        attempt: Attempt,
        digest: Digest,
    ) -> Document:
        """Keep bytes that an attempt has made; they count once its report names them."""
        await run_sync(desk.own, caller, worker, task, step, attempt)
        found = hashlib.sha256()
        with SpooledTemporaryFile(SPOOLED_BYTES_MAX) as spooled:
            file = cast(BinaryIO, spooled)
            async for piece in request.stream():
                found.update(piece)
                await run_sync(file.write, piece)
            if found.hexdigest() != digest:
                told = f"the bytes that came have the hash {found.hexdigest()!r}; send them again"
                raise Problem(422, "bad-value", "these are other bytes", told)
            file.seek(0)
            workspace = (await run_sync(desk.store.get_task, task)).workspace_id
            stored = await run_sync(desk.parts.artifacts.put, workspace, file)
        return Document({"digest": stored.digest, "size_bytes": stored.size_bytes})

    @routes.get(
        f"{OF_ATTEMPT}/artifacts/{{digest}}",
        response_class=Response,
        responses={200: {"description": "All bytes.", "content": CONTENT}},
    )
    def fetch_for_attempt(
        caller: Worker,
        worker: WorkerName,
        task: TaskId,
        step: StepKey,
        attempt: Attempt,
        digest: Digest,
    ) -> Response:
        """The bytes of an artifact of the attempt's task."""
        if not desk.names(desk.own(caller, worker, task, step, attempt), task, digest):
            raise NotFound(f"the task has no artifact with digest {digest!r}")
        path = desk.parts.artifacts.path(desk.store.get_task(task).workspace_id, digest)
        return FileResponse(path, headers=guarded(digest), media_type="application/octet-stream")
