"""Functions that the tests name as steps."""

import os
import sys
from typing import Any


def nothing() -> None:
    pass


def double(n: int) -> dict[str, int]:
    print("doubling")
    print("aside", file=sys.stderr)
    return {"twice": 2 * n}


def where() -> dict[str, Any]:
    return {"cwd": os.getcwd(), "env": os.environ.get("COLOUR"), "tmp": os.environ["TMPDIR"]}


def pair() -> Any:
    return {1: ("a", "b")}


def no_json() -> Any:
    return {1, 2}


def no_number() -> float:
    return float("nan")


def much() -> str:
    return "x" * 2_000_000


def raises() -> None:
    raise ValueError("the config has no 'port'")


def leaves() -> None:
    sys.exit("no")


def vanishes() -> None:
    os._exit(0)


def hangs() -> None:
    print("hanging", flush=True)
    while True:
        sys.stdin.readline()
        os.read(os.pipe()[0], 1)


class Group:
    @staticmethod
    def inner() -> str:
        return "inside"


value = 7
