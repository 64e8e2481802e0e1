"""A script being played: which turn a request gets, which of its faults come first, and what was asked so far.

Used by the thread that serves and by whoever asks about it, so everything here is under one lock.  What is kept is
bounded; what is counted is exact.
"""

from __future__ import annotations

import fnmatch
import re
import threading
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from longtask.core.model import JsonMap
from longtask.modelserver.asked import Asked
from longtask.modelserver.script import ALWAYS, Fault, Route, Script, Turn

REQUESTS_KEPT = 1_000
BODY_BYTES_KEPT = 64_000_000  # of all kept requests; then the oldest lose theirs
PROBLEMS_KEPT = 50


class OutOfScript(Exception):
    """The script says nothing for this request."""


@dataclass(frozen=True, slots=True)
class Cue:
    """What is to be played.  `number`: of the turn, from 1; None: it is none of the turns (`aux`, `beyond`)."""

    route: int
    number: int | None
    turn: Turn
    fault: Fault | None = None


@dataclass(slots=True)
class Request:
    """One request, and what came of it.

    `ended`: "whole", "error" (an HTTP error), the kind of a fault, "gone" (the other side left), None: not yet.
    """

    number: int
    at: int
    method: str
    path: str
    headers: Mapping[str, str]
    body: Any = None
    body_bytes: int = 0
    wire: str | None = None
    asked: Asked | None = None
    cue: Cue | None = None
    calls: tuple[str, ...] = ()
    status: int | None = None
    ended: str | None = None
    problem: str | None = None

    def document(self) -> JsonMap:
        asked, cue = self.asked, self.cue
        fault = cue.fault if cue else None
        return {
            "number": self.number,
            "at": self.at,
            "method": self.method,
            "path": self.path,
            "wire": self.wire,
            "model": asked.model if asked else None,
            "stream": asked.stream if asked else None,
            "tools": list(asked.tools) if asked else None,
            "replies": asked.replies if asked else None,
            "route": cue.route if cue else None,
            "turn": cue.number if cue else None,
            "fault": fault.model_dump(exclude_defaults=True) if fault else None,
            "calls": list(self.calls),
            "status": self.status,
            "ended": self.ended,
            "problem": self.problem,
            "headers": dict(self.headers),
            "body": self.body,
        }


@dataclass
class Place:
    """Where the playing of a route is.  `told`: how often each turn was answered, faults left out."""

    next: int = 0
    told: Counter[int] = field(default_factory=Counter)
    faults: Counter[int] = field(default_factory=Counter)


class Playback:
    def __init__(self, name: str, script: Script) -> None:
        self.name = name
        self._routes = script.parts()
        self._places = [Place() for _ in self._routes]
        self._requests: deque[Request] = deque()
        self._count = 0
        self._body_bytes = 0
        self._problems: deque[str] = deque(maxlen=PROBLEMS_KEPT)
        self._lock = threading.Lock()

    # what is played

    def cue(self, asked: Asked) -> Cue:
        """Takes the turn, or the fault before it.  Raises OutOfScript."""
        with self._lock:
            for number, (route, place) in enumerate(zip(self._routes, self._places, strict=True)):
                if _fits(route, asked):
                    return _cue(number, route, place, asked)
        raise OutOfScript(f"no route of script '{self.name}' fits: model {asked.model!r}, user: {_begin(asked.user)!r}")

    # what is kept

    def begin(self, request: Request) -> Request:
        """Gives it its number and keeps it."""
        with self._lock:
            self._count += 1
            request.number = self._count
            self._requests.append(request)
            if len(self._requests) > REQUESTS_KEPT:
                self._body_bytes -= self._requests.popleft().body_bytes
        return request

    def keep_body(self, request: Request, body: Any, size: int) -> None:
        with self._lock:
            request.body, request.body_bytes = body, size
            self._body_bytes += size
            for old in self._requests:
                if self._body_bytes <= BODY_BYTES_KEPT:
                    break
                self._body_bytes -= old.body_bytes
                old.body, old.body_bytes = None, 0

    def misfit(self, request: Request, problem: str) -> None:
        with self._lock:
            request.problem = problem
            self._problems.append(f"request {request.number}: {problem}")

    # what may be asked

    def requests(self) -> list[Request]:
        """The kept ones, oldest first."""
        with self._lock:
            return list(self._requests)

    def state(self) -> JsonMap:
        """{name, requests, problems, routes: [{match, mode, turns, next, told, faults}]}: counts by number of turn."""
        with self._lock:
            return {
                "name": self.name,
                "requests": self._count,
                "problems": list(self._problems),
                "routes": [
                    {
                        "match": route.match,
                        "mode": route.mode,
                        "turns": len(route.turns),
                        "next": place.next + 1 if route.mode == "sequence" else None,
                        "told": {str(index + 1): times for index, times in sorted(place.told.items())},
                        "faults": {str(index + 1): times for index, times in sorted(place.faults.items())},
                    }
                    for route, place in zip(self._routes, self._places, strict=True)
                ],
            }


def _fits(route: Route, asked: Asked) -> bool:
    if route.model is not None and not fnmatch.fnmatchcase(asked.model, route.model):
        return False
    return route.match is None or re.search(route.match, asked.user) is not None


def _cue(number: int, route: Route, place: Place, asked: Asked) -> Cue:
    if route.aux is not None and not asked.tools:
        return Cue(number, None, Turn(text=route.aux))
    index = asked.replies if route.mode == "history" else place.next
    if index >= len(route.turns):
        if route.beyond is not None:
            return Cue(number, None, Turn(text=route.beyond))
        label = f"of route {number + 1} " if number else ""
        raise OutOfScript(f"turn {index + 1} {label}was asked for; the script has {len(route.turns)}")
    turn = route.turns[index]
    fault = _due(turn, place.faults[index])
    if fault is not None:
        place.faults[index] += 1
    else:
        place.told[index] += 1
        place.next = index + 1
    return Cue(number, index + 1, turn, fault)


def _due(turn: Turn, played: int) -> Fault | None:
    """The fault that comes when so many of the turn's have come already."""
    for fault in turn.faults:
        if fault.times == ALWAYS or played < int(fault.times):
            return fault
        played -= int(fault.times)
    return None


def _begin(text: str, chars: int = 80) -> str:
    flat = " ".join(text[: 4 * chars].split())
    return flat if len(flat) <= chars else flat[: chars - 1] + "…"
