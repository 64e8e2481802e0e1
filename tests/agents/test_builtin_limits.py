"""When a limit of a provider ends, in the words of each."""

from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError, ModelRateLimitError

from longtask.agents.builtin.request import seconds_to_reset
from longtask.agents.provider import RESET_MAX_S

NOW = 1_800_000_000.0


def limited(body: Any = None, **headers: str) -> ModelHTTPError:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ModelHTTPError.for_category(ModelRateLimitError, status_code=429, model_name="m", body=body, headers=named)


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (limited(retry_after="7"), 7),
        (limited(retry_after_ms="1500", retry_after="7"), 1.5),
        (limited(anthropic_ratelimit_unified_reset="1800003600"), 3600),
        (limited(anthropic_ratelimit_requests_reset="2027-01-15T08:01:00Z"), 60),
        (limited(x_ratelimit_reset_tokens="6m0s", x_ratelimit_reset_requests="120ms"), 360),
        (
            limited(
                x_ratelimit_reset_tokens="6m0s",
                x_ratelimit_remaining_tokens="39000",
                x_ratelimit_reset_requests="20s",
                x_ratelimit_remaining_requests="0",
            ),
            20,
        ),
        (limited({"error": {"message": "limit", "resets_at": 1_800_007_200}}), 7200),
        (limited({"error": {"message": "Rate limit reached. Please try again in 1m30.5s."}}), 90.5),
        (limited({"error": {"message": "Too many requests"}}), None),
        (limited(anthropic_ratelimit_unified_reset="1700000000"), 0),
        (limited(retry_after="99999999"), RESET_MAX_S),
        (limited(x_ratelimit_reset="soon"), None),
    ],
)
def test_the_time_of_reset_is_read(error, seconds):
    assert seconds_to_reset(error, NOW) == seconds
