"""When usage limits end, as the programs of agents word it."""

from datetime import UTC, datetime

import pytest

from longtask.agents.native.limits import reset_of

NOW = int(datetime(2026, 11, 30, 12, 0, tzinfo=UTC).timestamp() * 1000)
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        (f"Claude AI usage limit reached|{NOW // 1000 + 7200}", 2),
        ("You've hit your limit · resets 3pm (UTC)", 3),
        ("You've hit your session limit · resets at 11:30 AM (UTC)", 23.5),
        ("You've hit your limit · resets 3pm (Europe/Berlin)", 2),
        ("You've hit your usage limit. Visit us or try again at Dec 2nd, 2026 12:00 PM (UTC).", 48),
        ("You've hit your usage limit. Try again in 3 days 4 hours 30 minutes.", 76.5),
        (f"usage limit reached|{NOW // 1000 - 7200}", None),
        ("You've hit your limit · resets 3pm (Nowhere/Land)", None),
        ("rate limit: slow down", None),
        ("the meeting resets 3pm (UTC)", None),
    ],
)
def test_the_end_of_a_limit_is_read(text, hours):
    assert reset_of(text, NOW) == (0 if hours is None else NOW + hours * HOUR_MS)


def test_a_time_without_a_zone_is_this_machines_own():
    then = reset_of("You've hit your usage limit or try again at 6:51 AM.", NOW)
    here = datetime.fromtimestamp(then / 1000, UTC).astimezone()
    assert (here.hour, here.minute) == (6, 51)
