"""How much one caller, or one address, may ask for; and what a body may be.  Memory is bounded whatever is sent."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from ipaddress import IPv6Address, ip_address

KEPT_MAX = 10_000
STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
BRACKETS = re.compile(rb"[\[\]{}]")


class Buckets:
    """A token bucket for each key.  Of very many keys those that were asked for longest ago are forgotten: they had
    filled up again, or somebody uses more addresses than any table could hold."""

    def __init__(self, per_s: float, burst: int, kept_max: int = KEPT_MAX) -> None:
        self._per_s, self._burst, self._kept_max = per_s, float(burst), kept_max
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()  # level, and when

    def take(self, key: str, now: float, count: int = 1) -> float:
        """0: granted.  Else after how many seconds it would be; nothing was taken.  `count` 0: a look."""
        level, at = self._levels.get(key, (self._burst, now))
        level = min(self._burst, level + (now - at) * self._per_s)
        if level < max(count, 1):
            return max((max(count, 1) - level) / self._per_s, 0.001)
        if count:
            self._levels[key] = (level - count, now)
            self._levels.move_to_end(key)
            while len(self._levels) > self._kept_max:
                self._levels.popitem(last=False)
        return 0.0

    def __len__(self) -> int:
        return len(self._levels)


def network_of(address: str) -> str:
    """What one caller can have as many addresses of as it likes counts as one: in IPv6 a /64."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return f"{int(found) >> 64:x}::/64"
    return str(found)


class Streams:
    """Open streams: of each caller, and of all."""

    def __init__(self, every_max: int, caller_max: int) -> None:
        self._every_max, self._caller_max = every_max, caller_max
        self._open: Counter[str] = Counter()
        self.count = 0

    def enter(self, who: str | None) -> str | None:
        """None: it may begin; then `leave` ends it.  Else why not.  `who` None: its own number is not bounded."""
        if self.count >= self._every_max:
            return f"this server has {self.count:,} streams open, which is its limit; try again, or ask another server"
        if who is not None and self._open[who] >= self._caller_max:
            return f"you have {self._open[who]} streams open, which is the limit for one token; close some"
        self.count += 1
        if who is not None:
            self._open[who] += 1
        return None

    def leave(self, who: str | None) -> None:
        self.count -= 1
        if who is not None:
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]


def too_deep(body: bytes, depth_max: int) -> bool:
    """JSON is nested deeper than that.  What is no JSON may be answered either way: it is refused later."""
    if body.count(b"[") + body.count(b"{") <= depth_max:
        return False
    depth = 0
    for found in BRACKETS.finditer(STRINGS.sub(b"", body)):
        if found[0] in b"[{":
            depth += 1
            if depth > depth_max:
                return True
        else:
            depth -= 1
    return False
