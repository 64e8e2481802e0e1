"""`longtask server` and `longtask up`: page and HTTP API, alone or with a worker in the same process."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Annotated

import typer

from longtask import boot
from longtask.api.access.policy import Policy
from longtask.api.settings import HOST, PORT, Settings
from longtask.cli.browser import open_page
from longtask.cli.help import commands
from longtask.cli.processes import Processes, end_with_parent
from longtask.cli.session import Session
from longtask.cli.worker import open_patiently
from longtask.core.errors import LongTaskError, StoreError
from longtask.core.model import POOL_DEFAULT
from longtask.engine.loop import Pulse
from longtask.views.text import counted

Host = Annotated[str, typer.Option(metavar="ADDRESS", help=f"where to listen; default: {HOST}, this machine alone")]
Port = Annotated[int, typer.Option(metavar="N", help=f"default: {PORT}; 0: any that is free", min=0, max=65_535)]
PublicUrl = Annotated[
    str | None,
    typer.Option("--public-url", metavar="URL", help="how others reach it; default: as it listens"),
]
Tokens = Annotated[bool, typer.Option("--tokens", help="ask for tokens on this machine too")]
Proxies = Annotated[
    list[str] | None,
    typer.Option("--proxy", metavar="ADDRESS", help="whose X-Forwarded-For is believed, again and again for several"),
]
Count = Annotated[
    int | None,
    typer.Option(
        "--processes", metavar="N", help="answer in so many processes of their own; default: in this one", min=1, max=64
    ),
]
ServeFd = Annotated[int | None, typer.Option("--serve-fd", hidden=True)]  # how such a process is given its socket


def register(app: typer.Typer) -> None:
    command = commands(app, "Operate")

    @command()
    def server(
        ctx: typer.Context,
        host: Host = HOST,
        port: Port = PORT,
        public_url: PublicUrl = None,
        tokens: Tokens = False,
        proxy: Proxies = None,
        processes: Count = None,
        serve_fd: ServeFd = None,
    ) -> int:
        """Serve the page and the HTTP API. Workers run elsewhere: longtask worker.

        On 127.0.0.1 it asks for no token, and answers this machine alone. On any other address it asks for tokens, and
        does not start before there is one. Its description, for programs: /openapi.json.

        Any number of servers may serve one database. SIGTERM or Ctrl-C ends it: what is being answered is answered.

        Examples:
            longtask server
            longtask server --host 0.0.0.0 --public-url https://longtask.example.com
            longtask server --processes 4
        """
        session: Session = ctx.obj
        settings = settings_of(host, port, public_url, tokens, proxy)
        return serve(session, settings, processes=processes, serve_fd=serve_fd)

    @command()
    def up(
        ctx: typer.Context,
        host: Host = HOST,
        port: Port = PORT,
        public_url: PublicUrl = None,
        tokens: Tokens = False,
        proxy: Proxies = None,
        processes: Count = None,
        slots: Annotated[
            int,
            typer.Option(metavar="N", help="steps at once; default: 4; 0: workers elsewhere do them", min=0, max=256),
        ] = 4,
        no_browser: Annotated[bool, typer.Option("--no-browser", help="do not open the page")] = False,
    ) -> int:
        """Serve the page and the HTTP API, and work on tasks, in one process.

        On a terminal with a desktop it opens the page.

        SIGTERM or Ctrl-C drains: agents save a checkpoint, each running step is given back, and what is being answered
        is answered. A second one ends at once.

        Examples:
            longtask up
            longtask up --port 0 --no-browser --json
            longtask up --slots 0
        """
        session: Session = ctx.obj
        settings = settings_of(host, port, public_url, tokens, proxy)
        browse = session.interactive and not no_browser
        return serve(session, settings, slots=slots, browse=browse, processes=processes)


def settings_of(host: str, port: int, public_url: str | None, tokens: bool, proxies: list[str] | None) -> Settings:
    """Raises BadPlan."""
    return Settings(host, port, public_url, Policy(tokens=tokens, proxies=tuple(proxies or ())))


def log_to_stderr() -> None:
    from longtask.telemetry.logs import formatter

    told = logging.StreamHandler(sys.stderr)
    told.setFormatter(formatter())
    logging.getLogger().handlers[:] = [told]
    logging.getLogger().setLevel(logging.INFO)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)  # what of it matters we tell ourselves


def serve(
    session: Session,
    settings: Settings,
    slots: int | None = None,
    *,
    browse: bool = False,
    processes: int | None = None,
    serve_fd: int | None = None,
) -> int:
    """Until a signal.  `slots`: with a worker; None: without.  `browse`: opens the page in a browser.  `processes`:
    answer requests, and this one does not; None: it does.  `serve_fd`: it is one of those."""
    log_to_stderr()
    open_patiently(session)
    with boot.LOADING:
        from longtask.api.server import make_server
        from longtask.api.serving import Listener, listen, url_of

    made = make_server(session.parts, settings)
    bound = listen(made) if serve_fd is None else socket.socket(fileno=serve_fd)
    url = url_of(bound)
    worker = None if slots is None else Worker(session, slots, settings.public_url or url)

    def ready() -> None:
        logging.info("server.started url=%s database=%s", url, session.config.database_shown)
        id = None if worker is None else worker.id
        if session.json:
            session.give_line({"type": "server.started", "url": url, "pid": os.getpid(), "worker": id})
        steps = f"works on {counted(slots, 'step')} at once" if slots else "leaves the work to workers elsewhere"
        session.say(f"LongTask serves {url}" + ("" if id is None else f", and {steps}"))
        if browse:
            open_page(url)

    if worker is not None:
        made.pulse = worker.pulse
    listener: Listener | Processes
    if processes is None:
        listener = Listener(made, ready)
    else:
        listener = Processes(session.config, serving_words(settings, bound.getsockname()[1]), processes, ready)

    def end() -> None:
        listener.end()
        if worker is not None:
            worker.stop()

    try:
        with ended_by_signal(end):
            if worker is not None:
                worker.start(end)
            if serve_fd is not None:
                end_with_parent(end)
            listener.run(sockets=[bound])
    finally:
        bound.close()
        if worker is not None:
            worker.end()
        logging.info("server.ended url=%s", url)
    if worker is not None and worker.failed is not None:
        raise worker.failed
    return 0


def serving_words(settings: Settings, port: int) -> list[str]:
    """The command of a process that answers as these settings say."""
    policy = settings.policy
    words = ["server", "--host", settings.host, "--port", str(port)]
    words += [] if settings.public_url is None else ["--public-url", settings.public_url]
    words += ["--tokens"] if policy.tokens else []
    return words + [word for proxy in policy.proxies for word in ("--proxy", proxy)]


@contextmanager
def ended_by_signal(end: Callable[[], None]) -> Iterator[None]:
    """The first one ends in order, the second at once: wardens kill what runs, and steps go on when leases end."""
    stops = 0

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stops
        stops += 1
        if stops > 1:
            os._exit(128 + number)
        end()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Worker:
    """A worker in a thread, with a store of its own: what callers ask must not keep it waiting for a connection."""

    def __init__(self, session: Session, slots: int, url: str) -> None:
        """`url`: of the server, where callbacks come unless the settings name another address."""
        config = replace(session.config, public_url=session.config.public_url or url)
        pools = (POOL_DEFAULT,) if slots else ()  # what the system itself has to do is always done
        self._running = boot.make_loop(boot.open_parts(config), slots=slots, pools=pools)
        self._thread = threading.Thread(target=self._work, name="loop", daemon=True)
        self._over: Callable[[], None] = lambda: None
        self.id = self._running.worker.id
        self.failed: LongTaskError | None = None

    def start(self, over: Callable[[], None]) -> None:
        """`over` is called when it has ended, by itself or not."""
        self._over = over
        self._thread.start()
        logging.info("worker.started worker=%s", self.id)

    def stop(self) -> None:
        self._running.loop.stop()

    def pulse(self) -> Pulse:
        return self._running.loop.pulse()

    def _work(self) -> None:
        try:
            self._running.loop.run()
        except Exception as error:  # noqa: BLE001  it is told by the thread that serves
            self.failed = error if isinstance(error, LongTaskError) else StoreError(f"the worker ended: {error!r}")
        finally:
            self._over()

    def end(self) -> None:
        self.stop()
        if self._thread.ident is not None:
            self._thread.join()
            logging.info("worker.ended worker=%s", self.id)
        self._running.close()
