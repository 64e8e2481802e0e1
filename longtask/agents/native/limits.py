"""When a usage limit ends, from the words in which an agent's program tells of it; and the wait for it.

Claude AI usage limit reached|1749924000            You've hit your limit · resets 3pm (Europe/Berlin)
… or try again at 6:51 AM.                          … try again at Dec 2nd, 2026 3:15 PM.
… Try again in 3 days 4 hours.
"""

from __future__ import annotations

import random
import re
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from longtask.core.model import Parked, WaitingFor

JITTER_MS = 60_000  # so that those who wait for the same limit do not all come back at once
MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
UNITS_S = {"day": 86_400, "hour": 3_600, "minute": 60}

_LIMIT = re.compile(r"\blimit\b|out of (?:extra )?usage", re.IGNORECASE)
_STAMP = re.compile(r"\|(\d{10})\b")
_CLOCK = re.compile(
    r"(?:resets?|try again)(?: at)? (?:(?P<day>[A-Z][a-z]{2} \d{1,2})(?:st|nd|rd|th)?,? (?P<year>\d{4}),? )?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))? ?(?P<half>[ap]m)\b(?: \((?P<zone>[A-Za-z_]+(?:/[A-Za-z_+-]+)*)\))?",
    re.IGNORECASE,
)
_SPAN = re.compile(r"try again in ((?:\d+ (?:day|hour|minute)s?,? ?)+)", re.IGNORECASE)
_PART = re.compile(r"(\d+) (day|hour|minute)", re.IGNORECASE)


def until(resets_at: int, text: str) -> Parked:
    return Parked(WaitingFor.TIMER, {"text": text}, resets_at + random.randrange(JITTER_MS))


def reset_of(text: str, now: int) -> int:
    """In ms since 1970, as `now`; 0: it does not say, or that is over.  A time of the clock without a zone is this
    machine's."""
    then = _told(text, now) if _LIMIT.search(text) else 0
    return then if then > now else 0


def _told(text: str, now: int) -> int:
    if stamp := _STAMP.search(text):
        return int(stamp[1]) * 1000
    if span := _SPAN.search(text):
        seconds = sum(int(number) * UNITS_S[unit.lower()] for number, unit in _PART.findall(span[1]))
        return now + seconds * 1000
    if clock := _CLOCK.search(text):
        try:
            return _next(clock, now)
        except (ZoneInfoNotFoundError, ValueError):
            return 0
    return 0


def _next(clock: re.Match[str], now: int) -> int:
    zone = ZoneInfo(clock["zone"]) if clock["zone"] else None
    day = datetime.fromtimestamp(now / 1000, zone)
    if clock["day"]:
        month, number = clock["day"].split()
        day = day.replace(year=int(clock["year"]), month=MONTHS.index(month.lower()) + 1, day=int(number))
    hour = int(clock["hour"]) % 12 + (12 if clock["half"].lower() == "pm" else 0)
    then = day.replace(hour=hour, minute=int(clock["minute"] or 0), second=0, microsecond=0)
    if not clock["day"] and then.timestamp() * 1000 <= now:
        then += timedelta(days=1)
    return int(then.timestamp() * 1000)
