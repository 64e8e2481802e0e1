"""A store, a desk, and what reads a task: all that a command needs which only looks or decides."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from longtask.boot.late import Language
from longtask.boot.merger import GitMerger
from longtask.config import Config
from longtask.core.errors import StoreError
from longtask.core.model import Json
from longtask.engine.desk import Desk
from longtask.engine.hands import Hands
from longtask.engine.records import TaskRecords
from longtask.engine.scope import Scopes
from longtask.store.artifacts import ArtifactStore
from longtask.store.artifacts.folder import Folder
from longtask.store.contract import Store
from longtask.store.sqlite import SqliteStore

POSTGRES = ("postgresql", "postgres")  # schemes of a URL


@dataclass(frozen=True, slots=True)
class Parts:
    config: Config
    store: Store
    artifacts: ArtifactStore
    scopes: Scopes
    records: TaskRecords
    expressions: Language
    desk: Desk
    hands: Hands
    merger: GitMerger


def open_parts(config: Config) -> Parts:
    return parts_on(config, open_store(config))


def parts_on(config: Config, store: Store) -> Parts:
    """On a store that is open already.  Raises StoreError when artifacts have no such place."""
    artifacts = open_artifacts(config, store)

    def read_json(workspace_id: str, digest: str) -> Json:
        return json.loads(artifacts.read(workspace_id, digest))

    scopes = Scopes(store, read_json)
    language = Language()
    desk = Desk(store, scopes, language, new_id)
    hands = Hands(store, scopes, language, partial(put_json, artifacts))
    records, merger = TaskRecords(store, scopes), GitMerger(config.home, config.hub)
    return Parts(config, store, artifacts, scopes, records, language, desk, hands, merger)


def put_json(artifacts: ArtifactStore, workspace_id: str, value: Json) -> str:
    """Its digest."""
    return artifacts.put(workspace_id, json.dumps(value).encode(), "application/json").digest


def open_store(config: Config) -> Store:
    """A path, `sqlite:///PATH` or `postgresql://…`.  Raises StoreError."""
    scheme, _, rest = config.database.partition("://")
    if rest and scheme not in ("sqlite", *POSTGRES):  # the rest may hold a password
        raise StoreError(f"database '{scheme}://…': give a path, sqlite:///PATH, or postgresql://USER@HOST/NAME")
    try:
        config.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        home = str(config.home)
        raise StoreError(f"folder {home!r}: {error.strerror}; LONGTASK_HOME names another place") from error
    if rest and scheme in POSTGRES:
        from longtask.store.postgres.store import PostgresStore

        return PostgresStore(config.database)
    return SqliteStore(Path(rest.removeprefix("/") if rest else config.database).expanduser())


def migrate_store(config: Config, contract: bool) -> tuple[list[int], list[int]]:
    """Brings the schema to the newest on which the release before still runs (`contract`: to the newest of all); the
    numbers applied, and those left.  A file in SQLite migrates itself when it is opened.  Raises StoreError."""
    if not config.database.startswith(tuple(f"{name}://" for name in POSTGRES)):
        open_store(config).close()
        return [], []
    from longtask.store.postgres.migrating import bring_up

    return bring_up(config.database, contract)


def open_artifacts(config: Config, store: Store) -> ArtifactStore:
    """A folder, or `s3://BUCKET/PREFIX` with the usual AWS_* variables.  Raises StoreError."""
    scheme, _, rest = config.artifacts.partition("://")
    if not rest:
        return ArtifactStore(config.artifacts, store)
    if scheme != "s3":  # the rest may hold a password
        raise StoreError(f"artifacts at '{scheme}://…': give a folder, or s3://BUCKET/PREFIX")
    from longtask.store.artifacts.bucket import Bucket

    return ArtifactStore(Bucket(config.artifacts, Folder(config.artifact_cache)), store)


def new_id() -> str:
    """A UUIDv7: ids of tasks sort by their time."""
    import uuid

    stamp = time.time_ns() // 1_000_000
    value = (stamp << 80) | (0x7 << 76) | (secrets.randbits(12) << 64) | (0b10 << 62) | secrets.randbits(62)
    return str(uuid.UUID(int=value))
