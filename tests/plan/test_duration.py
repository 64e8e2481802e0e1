import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtask.core.errors import BadPlan
from longtask.plan import duration_ms, duration_text


@pytest.mark.parametrize(
    ("text", "ms"),
    [("500ms", 500), ("30s", 30_000), ("15m", 900_000), ("6h", 21_600_000), ("2d", 172_800_000), ("1h30m", 5_400_000),
     ("1m5ms", 60_005), ("0s", 0)],
)  # fmt: skip
def test_a_duration_is_whole_numbers_with_units(text, ms):
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "m", "30", "1.5h", "30M", "-1s", "1s1m", "1m1m", "1 h", "1h\n", "٣m", "1h30"])
def test_anything_else_is_refused(text):
    with pytest.raises(BadPlan, match=r"has no unit|is not a duration"):
        duration_ms(text)


@given(st.integers(0, 3_650 * 86_400_000))
def test_a_written_duration_is_read_as_it_was(ms):
    assert duration_ms(duration_text(ms)) == ms
