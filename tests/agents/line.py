"""The way to the worker, without a worker: a journal in a dict that lives on when a run dies."""

from typing import Any

from longtask.core.errors import Refused


class Died(BaseException):
    """The child is killed at this point."""


class Book:
    """Rows of one run, and what people saw.  `die_at`: (frame, n, before or after the row is written)."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, Any]] = {}
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.die_at: tuple[str, int, str] | None = None
        self.refuse: str | None = None

    def call(self, name: str, /, **fields: Any) -> dict[str, Any]:
        if self.refuse is not None:
            raise Refused(self.refuse)
        self._die(name, fields["n"], "before")
        row = self.rows.setdefault(fields["n"], {"n": fields["n"], "body": None})
        assert row["body"] is None, f"call {fields['n']} had finished"
        keys = ("kind", "name", "fingerprint", "body", "tokens_in", "tokens_out", "micros", "changed")
        row |= {key: fields[key] for key in keys if key in fields}
        self._die(name, fields["n"], "after")
        return {"ok": True}

    def send(self, name: str, /, **fields: Any) -> None:
        self.sent.append((name, fields))

    def journal(self) -> list[dict[str, Any]]:
        return [self.rows[n] for n in sorted(self.rows)]

    @property
    def shown(self) -> str:
        return "".join(fields["text"] for name, fields in self.sent if name == "output")

    def _die(self, name: str, n: int, when: str) -> None:
        if self.die_at == (name, n, when):
            self.die_at = None
            raise Died
