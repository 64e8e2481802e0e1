"""`Client` asks a server and waits for its answer; `AsyncClient` (async_client.py) has the same methods, awaited.

    with Client("https://longtask.example.com") as client:
        task = client.submit(Path("longtask.yaml").read_text())["task"]
        for event in client.events(task):
            print(event["seq"], event["type"])

A request whose answer is lost is sent again, and is not carried out twice; a stream that is cut goes on where it was.
One client may be used by several threads at once.  Which methods there are, and what they take: v1.py, streams.py.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

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


def blocking(describe: Callable[P, Request[T]]) -> Callable[Concatenate[Client, P], T]:
    @wraps(describe)
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.send(describe(*args, **kwargs))

    shown(method, describe)
    return method


def paged(describe: Callable[P, Pages[T]]) -> Callable[Concatenate[Client, P], Iterator[T]]:
    @wraps(describe)
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self.turn(describe(*args, **kwargs))

    shown(method, describe)
    return method


def following(describe: Callable[P, Following]) -> Callable[Concatenate[Client, P], Generator[Message, None, None]]:
    @wraps(describe)
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> Generator[Message, None, None]:
        return self.follow(describe(*args, **kwargs))

    shown(method, describe)
    return method


class Client(Shared):
    def __init__(self, url: str | None = None, token: str | None = None, *, limits: Limits | None = None) -> None:
        super().__init__(url, token, limits=limits)
        self._http = httpx.Client(**self.options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    whoami = blocking(v1.whoami)
    check_plan = blocking(v1.check_plan)
    submit = blocking(v1.submit)
    tasks = paged(v1.tasks)
    task = blocking(v1.task)
    graph = blocking(v1.graph)
    plan = blocking(v1.plan)
    why = blocking(v1.why)
    changes = blocking(v1.changes)
    diff = blocking(v1.diff)
    files = paged(v1.files)
    file = blocking(v1.file)
    pause = blocking(v1.pause)
    resume = blocking(v1.resume)
    cancel = blocking(v1.cancel)
    trace = blocking(v1.trace)
    steps = paged(v1.steps)
    step = blocking(v1.step)
    attempts = paged(v1.attempts)
    output = paged(v1.output)
    turns = paged(v1.turns)
    retry = blocking(v1.retry)
    cancel_step = blocking(v1.cancel_step)
    skip = blocking(v1.skip)
    foresee = blocking(v1.foresee)
    fork = blocking(v1.fork)
    add = blocking(v1.add)
    edit = blocking(v1.edit)
    take = blocking(v1.take)
    give_back = blocking(v1.give_back)
    done = blocking(v1.done)
    approvals = blocking(v1.approvals)
    task_approvals = blocking(v1.task_approvals)
    approval = blocking(v1.approval)
    decide = blocking(v1.decide)
    approve = blocking(v1.approve)
    reject = blocking(v1.reject)
    signal = blocking(v1.signal)
    signal_workspace = blocking(v1.signal_workspace)
    artifacts = blocking(v1.artifacts)
    artifact = blocking(v1.artifact)
    journal = paged(v1.journal)
    workspaces = blocking(v1.workspaces)
    workspace = blocking(v1.workspace)
    register_workspace = blocking(v1.register_workspace)
    fleet = blocking(v1.fleet)
    tokens = blocking(v1.tokens)
    create_token = blocking(v1.create_token)
    rotate_token = blocking(v1.rotate_token)
    revoke_token = blocking(v1.revoke_token)
    audit = paged(v1.audit)
    webhooks = paged(v1.webhooks)
    webhook = blocking(v1.webhook)
    add_webhook = blocking(v1.add_webhook)
    remove_webhook = blocking(v1.remove_webhook)
    replay_webhook = blocking(v1.replay_webhook)
    enable_webhook = blocking(v1.enable_webhook)
    make_link = blocking(v1.make_link)
    stream = following(streams.of_task)
    stream_all = following(streams.of_all)
    stream_output = following(streams.of_output)

    def events(self, task: str, after: str = "0") -> Iterator[CloudEvent]:
        """What happens to a task, from its first event on, until it has ended."""
        with closing(self.stream(task, after)) as messages:
            for message in messages:
                if message.kind == "event":
                    yield message.data

    def download(self, task: str, name: str, file: str | os.PathLike[str], *, digest: str | None = None) -> Path:
        """Fetches an artifact into a file: all of it, or nothing; what has come before it was cut is kept and gone on
        with, also by another call.  `digest`: these bytes of that name, not the newest."""
        target = Path(file)
        self._gather(Fetching(task, name, target, digest))
        return target

    def export_archive(self, task: str, file: str | os.PathLike[str]) -> Path:
        """Fetches the archive of a task that has ended into a file, as `download` does."""
        target = Path(file)
        self._gather(FetchingArchive(task, target))
        return target

    def import_archive(self, file: str | os.PathLike[str]) -> Imported:
        """Brings the task of an archive into the server's installation; the same archive may be sent again."""
        headers = {"Content-Type": archives.TYPE}

        def post() -> httpx.Response:
            content = archives.blocks(file)
            return self._http.post(self.url + archives.ARCHIVES, headers=headers, content=content, timeout=self.working)

        done: Imported = document(self._answer(post))
        return done

    def _gather(self, fetching: Fetching) -> None:
        tries, course = self.lasting()
        try:
            while (wait := self._fetch(fetching, tries, course)) is not None:
                time.sleep(wait)
        finally:
            fetching.close()

    def _fetch(self, fetching: Fetching, tries: Tries, course: Course) -> float | None:
        """One connection; None: all of it is there."""
        try:
            with self._http.stream(
                "GET", self.url + fetching.path, headers=fetching.headers, timeout=self.patience(fetching.made)
            ) as got:
                if got.status_code == NO_RANGE and fetching.refused_range():
                    return None
                if not got.is_success:
                    return course.answered(answer_of(got, got.read()))
                if not fetching.connected(got.status_code, got.headers):
                    return 0.0
                for content in got.iter_bytes(CHUNK_BYTES):
                    fetching.take(content)
                    tries.ease()
                return None if fetching.ended() else course.broken(EOFError("the answer ends too early"))
        except HOPELESS as error:
            raise hopeless(error) from error
        except httpx.RequestError as error:
            return course.broken(error)

    # how things are sent

    def send(self, request: Request[T]) -> T:
        """Sends what `v1` describes, again if need be.  Raises LongTaskError."""

        def ask() -> httpx.Response:
            where, headers = self.url + request.path, dict(request.headers)
            return self._http.request(request.method, where, headers=headers, content=request.body)

        return request.read(self._answer(ask))

    def _answer(self, ask: Callable[[], httpx.Response]) -> Answer:
        """Asks until it is answered, as often as its course allows.  Raises LongTaskError."""
        course = self.course()
        while True:
            try:
                got = ask()
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
            time.sleep(wait)

    def turn(self, pages: Pages[T]) -> Iterator[T]:
        """Pages are fetched as they are needed."""
        turning = Turning(pages)
        while turning.wanted is not None:
            yield from turning.page(self.send(turning.wanted))

    def follow(self, stream: Following) -> Generator[Message, None, None]:
        """Until the stream has ended, over any number of connections.  Raises LongTaskError."""
        tries, course = self.lasting()
        while not stream.is_over():
            wait: float | None
            try:
                with self._http.stream(
                    "GET", self.url + stream.path, headers=stream.headers, timeout=self.listening
                ) as got:
                    if not got.is_success:
                        wait = course.answered(answer_of(got, got.read()))
                    else:
                        stream.connected(got.status_code, media_type_of(got))
                        for content in got.iter_bytes():
                            yield from stream.hear(content)
                            if stream.heard:
                                tries.ease()
                            if stream.is_over():
                                return
                        wait = (
                            0.0 if stream.at_once or stream.is_over() else course.broken(EOFError("the stream was cut"))
                        )
            except httpx.RequestError as error:
                wait = course.broken(error)
            time.sleep(wait or 0.0)
