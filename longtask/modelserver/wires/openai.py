"""What OpenAI's two wires share: the form of an error."""

from __future__ import annotations

from collections.abc import Mapping

from longtask.core.model import JsonMap
from longtask.modelserver.wires.contract import Failure

ERRORS: Mapping[int, tuple[str, str | None]] = {  # type and code
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "unsupported_country_region_territory"),
    404: ("invalid_request_error", "not_found"),
    429: ("requests", "rate_limit_exceeded"),
}
SERVER = ("server_error", "server_error")
LIMIT = "usage_limit_reached"  # Codex reads the instant that stands beside it


def error(status: int, message: str) -> JsonMap:
    kind, code = ERRORS.get(status, SERVER)
    return {"message": message, "type": kind, "param": None, "code": code}


def failure(status: int, message: str, resets_at: int | None = None) -> Failure:
    found = error(status, message)
    if resets_at is None:
        return Failure({"error": found})
    return Failure({"error": {**found, "type": LIMIT, "plan_type": "plus", "resets_at": resets_at}})
