"""Composition: the only package that knows every part.

parts = open_parts(load(database))          a store, a desk, and what reads a task
loop = make_loop(parts, slots=4)            a worker and a scheduler that share them
"""

from longtask.boot.executors import LaterPlaces, runtime_of
from longtask.boot.late import LOADING, Language, read_document
from longtask.boot.merger import GitMerger, branch_of
from longtask.boot.parts import Parts, migrate_store, new_id, open_artifacts, open_parts, open_store, parts_on
from longtask.boot.working import (
    Running,
    keep_traces,
    make_dispatch,
    make_loop,
    make_loop_elsewhere,
    make_upkeep,
    new_worker_id,
)

__all__ = [
    "LOADING",
    "GitMerger",
    "Language",
    "LaterPlaces",
    "Parts",
    "Running",
    "branch_of",
    "keep_traces",
    "make_dispatch",
    "make_loop",
    "make_loop_elsewhere",
    "make_upkeep",
    "migrate_store",
    "new_id",
    "new_worker_id",
    "open_artifacts",
    "open_parts",
    "open_store",
    "parts_on",
    "read_document",
    "runtime_of",
]
