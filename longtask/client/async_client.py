"""`AsyncClient`: the methods of `Client`, awaited.

    async with AsyncClient() as client:
        task = (await client.submit(plan))["task"]
        async for event in client.events(task):
            ...

What it sends, when it sends again and how streams go on is written once, beside this file; here stand the awaits.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import anyio
import anyio.to_thread
import httpx

from longtask.client import archives, streams, v1
from longtask.client.archives import FetchingArchive
from longtask.client.course import Course, Limits, Tries
from longtask.client.documents import CloudEvent, Imported
from longtask.client.fetching import Fetching
from longtask.client.request import Answer, Pages, Request, Turning, document
from longtask.client.shared import (
    CHUNK_BYTES,
    HOPELESS,
    NO_RANGE,
    Shared,
    answer_of,
    hopeless,
    media_type_of,
    shown,
)
from longtask.client.streams import Following, Message

P = ParamSpec("P")
T = TypeVar("T")


def awaited(describe: Callable[P, Request[T]]) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    @wraps(describe)
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.send(describe(*args, **kwargs))

    shown(method, describe)
    return method


def paged(describe: Callable[P, Pages[T]]) -> Callable[Concatenate[AsyncClient, P], AsyncGenerator[T, None]]:
    @wraps(describe)
    def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[T, None]:
        return self.turn(describe(*args, **kwargs))

    shown(method, describe)
    return method


def following(
    describe: Callable[P, Following],
) -> Callable[Concatenate[AsyncClient, P], AsyncGenerator[Message, None]]:
    @wraps(describe)
    def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[Message, None]:
        return self.follow(describe(*args, **kwargs))

    shown(method, describe)
    return method


class AsyncClient(Shared):
    def __init__(self, url: str | None = None, token: str | None = None, *, limits: Limits | None = None) -> None:
        super().__init__(url, token, limits=limits)
        self._http = httpx.AsyncClient(**self.options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    whoami = awaited(v1.whoami)
    check_plan = awaited(v1.check_plan)
    submit = awaited(v1.submit)
    tasks = paged(v1.tasks)
    task = awaited(v1.task)
    graph = awaited(v1.graph)
    plan = awaited(v1.plan)
    why = awaited(v1.why)
    changes = awaited(v1.changes)
    diff = awaited(v1.diff)
    files = paged(v1.files)
    file = awaited(v1.file)
    pause = awaited(v1.pause)
    resume = awaited(v1.resume)
    cancel = awaited(v1.cancel)
    trace = awaited(v1.trace)
    steps = paged(v1.steps)
    step = awaited(v1.step)
    attempts = paged(v1.attempts)
    output = paged(v1.output)
    turns = paged(v1.turns)
    retry = awaited(v1.retry)
    cancel_step = awaited(v1.cancel_step)
    skip = awaited(v1.skip)
    foresee = awaited(v1.foresee)
    fork = awaited(v1.fork)
    add = awaited(v1.add)
    edit = awaited(v1.edit)
    take = awaited(v1.take)
    give_back = awaited(v1.give_back)
    done = awaited(v1.done)
    approvals = awaited(v1.approvals)
    task_approvals = awaited(v1.task_approvals)
    approval = awaited(v1.approval)
    decide = awaited(v1.decide)
    approve = awaited(v1.approve)
    reject = awaited(v1.reject)
    signal = awaited(v1.signal)
    signal_workspace = awaited(v1.signal_workspace)
    artifacts = awaited(v1.artifacts)
    artifact = awaited(v1.artifact)
    journal = paged(v1.journal)
    workspaces = awaited(v1.workspaces)
    workspace = awaited(v1.workspace)
    register_workspace = awaited(v1.register_workspace)
    fleet = awaited(v1.fleet)
    tokens = awaited(v1.tokens)
    create_token = awaited(v1.create_token)
    rotate_token = awaited(v1.rotate_token)
    revoke_token = awaited(v1.revoke_token)
    audit = paged(v1.audit)
    webhooks = paged(v1.webhooks)
    webhook = awaited(v1.webhook)
    add_webhook = awaited(v1.add_webhook)
    remove_webhook = awaited(v1.remove_webhook)
    replay_webhook = awaited(v1.replay_webhook)
    enable_webhook = awaited(v1.enable_webhook)
    make_link = awaited(v1.make_link)
    stream = following(streams.of_task)
    stream_all = following(streams.of_all)
    stream_output = following(streams.of_output)

    async def events(self, task: str, after: str = "0") -> AsyncGenerator[CloudEvent, None]:
        """What happens to a task, from its first event on, until it has ended."""
        async with aclosing(self.stream(task, after)) as messages:
            async for message in messages:
                if message.kind == "event":
                    yield message.data

    async def download(self, task: str, name: str, file: str | os.PathLike[str], *, digest: str | None = None) -> Path:
        """Fetches an artifact into a file: all of it, or nothing; what has come before it was cut is kept and gone on
        with, also by another call.  `digest`: these bytes of that name, not the newest."""
        target = Path(file)
        await self._gather(Fetching(task, name, target, digest))
        return target

    async def export_archive(self, task: str, file: str | os.PathLike[str]) -> Path:
        """Fetches the archive of a task that has ended into a file, as `download` does."""
        target = Path(file)
        await self._gather(FetchingArchive(task, target))
        return target

    async def import_archive(self, file: str | os.PathLike[str]) -> Imported:
        """Brings the task of an archive into the server's installation; the same archive may be sent again."""
        headers = {"Content-Type": archives.TYPE}

        def post() -> Awaitable[httpx.Response]:
            content = _sent(file)
            return self._http.post(self.url + archives.ARCHIVES, headers=headers, content=content, timeout=self.working)

        done: Imported = document(await self._answer(post))
        return done

    async def _gather(self, fetching: Fetching) -> None:
        tries, course = self.lasting()
        try:
            while (wait := await self._fetch(fetching, tries, course)) is not None:
                await anyio.sleep(wait)
        finally:
            fetching.close()

    async def _fetch(self, fetching: Fetching, tries: Tries, course: Course) -> float | None:
        """One connection; None: all of it is there."""
        try:
            async with self._http.stream(
                "GET", self.url + fetching.path, headers=fetching.headers, timeout=self.patience(fetching.made)
            ) as got:
                if got.status_code == NO_RANGE and fetching.refused_range():
                    return None
                if not got.is_success:
                    return course.answered(answer_of(got, await got.aread()))
                if not fetching.connected(got.status_code, got.headers):
                    return 0.0
                async for content in got.aiter_bytes(CHUNK_BYTES):
                    fetching.take(content)
                    tries.ease()
                return None if fetching.ended() else course.broken(EOFError("the answer ends too early"))
        except HOPELESS as error:
            raise hopeless(error) from error
        except httpx.RequestError as error:
            return course.broken(error)

    # how things are sent

    async def send(self, request: Request[T]) -> T:
        """Sends what `v1` describes, again if need be.  Raises LongTaskError."""

        def ask() -> Awaitable[httpx.Response]:
            where, headers = self.url + request.path, dict(request.headers)
            return self._http.request(request.method, where, headers=headers, content=request.body)

        return request.read(await self._answer(ask))

    async def _answer(self, ask: Callable[[], Awaitable[httpx.Response]]) -> Answer:
        """Asks until it is answered, as often as its course allows.  Raises LongTaskError."""
        course = self.course()
        while True:
            try:
                got = await ask()
            except HOPELESS as error:
                raise hopeless(error) from error
            except httpx.RequestError as error:
                wait = course.broken(error)
            else:
                answer = answer_of(got, got.content)
                again = course.answered(answer)
                if again is None:
                    return answer
                wait = again
            await anyio.sleep(wait)

    async def turn(self, pages: Pages[T]) -> AsyncGenerator[T, None]:
        """Pages are fetched as they are needed."""
        turning = Turning(pages)
        while turning.wanted is not None:
            for found in turning.page(await self.send(turning.wanted)):
                yield found

    async def follow(self, stream: Following) -> AsyncGenerator[Message, None]:
        """Until the stream has ended, over any number of connections.  Raises LongTaskError."""
        tries, course = self.lasting()
        while not stream.is_over():
            wait: float | None
            try:
                async with self._http.stream(
                    "GET", self.url + stream.path, headers=stream.headers, timeout=self.listening
                ) as got:
                    if not got.is_success:
                        wait = course.answered(answer_of(got, await got.aread()))
                    else:
                        stream.connected(got.status_code, media_type_of(got))
                        async for content in got.aiter_bytes():
                            for message in stream.hear(content):
                                yield message
                            if stream.heard:
                                tries.ease()
                            if stream.is_over():
                                return
                        wait = (
                            0.0 if stream.at_once or stream.is_over() else course.broken(EOFError("the stream was cut"))
                        )
            except httpx.RequestError as error:
                wait = course.broken(error)
            await anyio.sleep(wait or 0.0)


async def _sent(file: str | os.PathLike[str]) -> AsyncGenerator[bytes, None]:
    blocks = archives.blocks(file)
    while block := await anyio.to_thread.run_sync(next, blocks, b""):
        yield block
