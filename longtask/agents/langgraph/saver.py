"""The checkpointer of a graph: what LangGraph saves at each end of a node and of a step, kept with a row of the run.

It is LangGraph's own saver in memory, written into the run's session folder after each change: values of channels each
in a file of its own, which is written once (a list that grows shares the blocks that it had), the rest in one file.
The row that keeps them holds the worktree, too; so whoever goes on has the graph and the files of one moment.

Only the newest checkpoint of each namespace is kept, and of subgraphs those that are at work: nobody travels in time
here, and all of them would grow with the square of a talk.  A graph with `DeltaChannel`s needs its past and keeps it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.memory import InMemorySaver

from longtask.core.model import Json, JsonMap

FOLDER = "graph"  # below the session's
THREAD = "run"
STATE = "state.json"
CHECKPOINT, INPUT = "checkpoint", "input"
START = "__start__"  # no node of the user's; the input is given again as long as nothing has ended
ERROR, INTERRUPT, NO_TASK = "__error__", "__interrupt__", "00000000-0000-0000-0000-000000000000"
INTERRUPTS = "interrupts"  # in a row: ids of what a node waits for since


class KeptSaver(InMemorySaver):
    """`keep(name, body)` writes the row; `name_of` a node by the id of its task."""

    def __init__(
        self, session: Path, keep: Callable[[str, JsonMap], None], name_of: Callable[[str], str | None]
    ) -> None:
        super().__init__()
        self._folder = session / FOLDER
        self._keep = keep
        self._name_of = name_of
        self._turn = threading.RLock()
        self.keeps_all = False
        if (self._folder / STATE).exists():
            self._read()

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        if not _ours(config):
            return super().put(config, checkpoint, metadata, new_versions)
        with self._turn:
            put = super().put(config, checkpoint, metadata, new_versions)
            if not self.keeps_all:
                self._forget(config["configurable"]["checkpoint_ns"], checkpoint)
            self._write()
            if metadata.get("source") != "input":
                self._keep(CHECKPOINT, {"text": f"step {metadata.get('step')}", "failed": False})
            return put

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        if not _ours(config):
            return super().put_writes(config, writes, task_id, task_path)
        with self._turn:
            super().put_writes(config, writes, task_id, task_path)
            self._write()
            if task_path.endswith(START):
                return
            name = INPUT if task_id == NO_TASK else f"node.{self._name_of(task_id) or task_path or task_id}"
            channels = [channel for channel, _ in writes]
            text = ", ".join(channel for channel in channels if not channel.startswith(("__", "branch:")))
            body: dict[str, Json] = {"text": text, "failed": ERROR in channels}
            asked = [one.id for channel, value in writes if channel == INTERRUPT for one in value]
            self._keep(name, {**body, INTERRUPTS: asked} if asked else body)

    def _forget(self, namespace: str, newest: Checkpoint) -> None:
        """All of this namespace but its newest checkpoint, and what its finished tasks have left in theirs."""
        below = f"{namespace}|" if namespace else ""
        gone = {
            other
            for other in self.storage[THREAD]
            if other != namespace and other.startswith(below) and ":" in other[len(below) :]
        }
        for other in gone:
            del self.storage[THREAD][other]
        kept = self.storage[THREAD][namespace]
        for old in [old for old in kept if old != newest["id"]]:
            del kept[old]
        for key in [k for k in self.writes if k[1] in gone or (k[1] == namespace and k[2] != newest["id"])]:
            del self.writes[key]
        versions = newest["channel_versions"]
        for blob in [b for b in self.blobs if b[1] in gone or (b[1] == namespace and versions.get(b[2]) != b[3])]:
            del self.blobs[blob]

    def _write(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        blobs = {_file_of(key): (key, value) for key, value in self.blobs.items() if key[0] == THREAD}
        for file in self._folder.iterdir():
            if file.name != STATE and file.name not in blobs:
                file.unlink()
        for name, (_, value) in blobs.items():
            if not (self._folder / name).exists():
                (self._folder / name).write_bytes(value[1])
        state = {
            "checkpoints": [
                [namespace, id, _packed(checkpoint), _packed(metadata), parent]
                for namespace, kept in self.storage[THREAD].items()
                for id, (checkpoint, metadata, parent) in kept.items()
            ],
            "writes": [
                [namespace, id, index, task, channel, _packed(value), path]
                for (thread, namespace, id), made in self.writes.items()
                if thread == THREAD
                for (task, index), (_, channel, value, path) in made.items()
            ],
            "blobs": [[name, *key[1:], value[0]] for name, (key, value) in blobs.items()],
        }
        (self._folder / STATE).write_text(json.dumps(state))

    def _read(self) -> None:
        state = json.loads((self._folder / STATE).read_text())
        for namespace, id, checkpoint, metadata, parent in state["checkpoints"]:
            self.storage[THREAD][namespace][id] = _unpacked(checkpoint), _unpacked(metadata), parent
        for namespace, id, index, task, channel, value, path in state["writes"]:
            self.writes[THREAD, namespace, id][task, index] = task, channel, _unpacked(value), path
        for name, namespace, channel, version, kind in state["blobs"]:
            self.blobs[THREAD, namespace, channel, version] = kind, (self._folder / name).read_bytes()


def _ours(config: RunnableConfig) -> bool:
    """Not one that a node runs by itself, under another thread's id: that is part of the node."""
    return bool(config["configurable"]["thread_id"] == THREAD)


def _file_of(key: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]


def _packed(value: tuple[str, bytes]) -> list[str]:
    return [value[0], base64.b64encode(value[1]).decode()]


def _unpacked(value: Sequence[str]) -> tuple[str, bytes]:
    return value[0], base64.b64decode(value[1])
