"""Artifacts in an S3-compatible bucket, by `obstore`; credentials, region and endpoint come from AWS_* variables.

- An object appears when its upload is complete, and not before: that is the protocol's promise, for uploads in parts
  too.  What a broken upload in parts leaves is invisible; a life-cycle rule of the bucket takes it away.
- Whatever reads a file reads a local copy in `cache`, which was compared with its name when it was fetched, and is
  compared again when it is opened: a copy that is damaged is fetched anew.
- Patience is bounded: some tries within RETRY_S, then a StoreError.  No message holds what the library said, since an
  address may hold a password.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

from longtask.core.errors import NotFound, StoreError, StoreUnavailable
from longtask.store.artifacts.folder import NEW, OWNERS, Folder, name_of, nothing, told, workspace_name

try:
    import obstore
    from obstore import exceptions
    from obstore.store import S3Store
except ImportError:
    raise StoreError("artifacts in a bucket need the package 'obstore'; install 'longtask[s3]'") from None

PART_BYTES = 8 << 20  # a part of an upload; 10,000 of them at most: 80 GB
PARTS_AT_ONCE = 4
BLOCK_BYTES = 1 << 20
CONNECT_S, REQUEST_S, RETRY_S, RETRIES_MAX = 5, 60, 20, 4
CACHE_BYTES_MAX = 2 << 30
CACHE_UNUSED_S = 3600  # a step may have been handed the file's path

_CODE = re.compile(r"<Code>(\w{1,60})</Code>|\(code: (\w{1,60})\)")
_STATUS = re.compile(r"status code: (\d{3})")


class Bucket:
    """`artifacts.Place`."""

    def __init__(self, where: str, cache: Folder) -> None:
        name, _, prefix = where.removeprefix("s3://").partition("/")
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,255}", name):  # `s3://key:secret@bucket` is not a way to write it
            raise StoreError(
                "artifacts at 's3://…': no bucket's name; write s3://BUCKET/PREFIX, and keys as AWS_* variables"
            )
        self._prefix = prefix.strip("/")
        self.where = f"s3://{name}/{self._prefix}".rstrip("/")
        self.cache = cache
        plain = os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true", "yes")
        try:
            self._store = S3Store(
                name,
                client_options={
                    "allow_http": plain,
                    "connect_timeout": timedelta(seconds=CONNECT_S),
                    "timeout": timedelta(seconds=REQUEST_S),
                },
                retry_config={"max_retries": RETRIES_MAX, "retry_timeout": timedelta(seconds=RETRY_S)},
            )
        except (exceptions.BaseError, ValueError):
            raise StoreError(f"artifacts at {self.where!r}: the AWS_* variables do not fit together") from None

    def workbench(self, workspace_id: str) -> Path:
        return self.cache.workbench(workspace_id)

    def keep(self, workspace_id: str, digest: str, file: Path) -> None:
        key = self._key(workspace_id, digest)
        try:
            obstore.put(self._store, key, file, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE)
        except FileNotFoundError as error:  # nothing that is put can be missing but the bucket
            raise self._told(error, "NoSuchBucket") from None
        except (exceptions.BaseError, OSError) as error:
            raise self._told(error) from None
        with suppress(StoreError):  # it is in the bucket: a full disk here is no harm
            self.cache.keep(workspace_id, digest, file)

    def has(self, workspace_id: str, digest: str) -> bool:
        try:
            obstore.head(self._store, self._key(workspace_id, digest))
        except FileNotFoundError:
            return False
        except exceptions.BaseError as error:
            raise self._told(error) from None
        return True

    def path(self, workspace_id: str, digest: str) -> Path:
        try:
            place = self.cache.path(workspace_id, digest)
        except NotFound:
            return self._fetch(workspace_id, digest)
        with suppress(OSError):
            os.utime(place)  # its last use
        return place

    def open(self, workspace_id: str, digest: str) -> BinaryIO:
        self.path(workspace_id, digest)
        try:
            return self.cache.open(workspace_id, digest)
        except (NotFound, StoreError):  # trimmed a moment ago, or the local copy is damaged
            self.cache.drop(workspace_id, digest)
            self._fetch(workspace_id, digest)
            return self.cache.open(workspace_id, digest)

    def _fetch(self, workspace_id: str, digest: str) -> Path:
        """Into the cache, compared with its name."""
        key = self._key(workspace_id, digest)
        bench = self.cache.workbench(workspace_id)
        try:
            handle, name = tempfile.mkstemp(prefix=NEW, dir=bench)
        except OSError as error:
            raise told(error, bench) from error
        temporary = Path(name)
        found = hashlib.sha256()
        try:
            with os.fdopen(handle, "wb") as file:
                for block in obstore.get(self._store, key).stream(min_chunk_size=BLOCK_BYTES):
                    found.update(block)
                    file.write(block)
                os.fchmod(handle, 0o400)
            if found.hexdigest() != digest:
                raise StoreError(
                    f"artifact {digest!r} is damaged: its bytes have the hash {found.hexdigest()!r}; restore object "
                    f"{key!r} of {self.where!r}, or delete it and run again what made it"
                )
            self.cache.keep(workspace_id, digest, temporary)
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise self._told(error, "NoSuchBucket") from None
            raise nothing(workspace_id, digest) from None
        except exceptions.BaseError as error:
            raise self._told(error) from None
        except OSError as error:
            raise told(error, bench) from error
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        return self.cache.path(workspace_id, digest)

    def drop(self, workspace_id: str, digest: str) -> None:
        try:
            obstore.delete(self._store, self._key(workspace_id, digest))
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise self._told(error, "NoSuchBucket") from None
        except exceptions.BaseError as error:
            raise self._told(error) from None
        self.cache.drop(workspace_id, digest)

    def sweep(self, older_than_s: float) -> int:
        return self.cache.sweep(older_than_s) + self.cache.trim(CACHE_BYTES_MAX, CACHE_UNUSED_S)

    def digests(self, workspace_id: str) -> Iterator[str]:
        return (name.replace("/", "") for name in self._names(workspace_name(workspace_id)))

    def claim(self, owner: str) -> None:
        try:
            obstore.put(self._store, self._whole(f"{OWNERS}/{owner}"), b"")
        except FileNotFoundError as error:
            raise self._told(error, "NoSuchBucket") from None
        except exceptions.BaseError as error:
            raise self._told(error) from None

    def owners(self) -> set[str]:
        return set(self._names(OWNERS))

    def _names(self, folder: str) -> Iterator[str]:
        """Of what lies below, without the folder's own."""
        whole = self._whole(folder) + "/"
        try:
            for page in obstore.list(self._store, whole):
                for known in page:
                    yield known["path"].removeprefix(whole)
        except (exceptions.BaseError, FileNotFoundError) as error:
            raise self._told(error) from None

    def _key(self, workspace_id: str, digest: str) -> str:
        return self._whole(name_of(workspace_id, digest))

    def _whole(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    def _told(self, error: Exception, code: str = "") -> StoreError:
        """From what the library says, only the service's code and the status are let through."""
        said = str(error)
        if not code and (found := _CODE.search(said)):
            code = found[1] or found[2]
        status = found[1] if (found := _STATUS.search(said)) else ""
        if code == "NoSuchBucket":
            means = "there is no such bucket; make it, or name another with LONGTASK_ARTIFACT_STORE"
        elif "/latest/api/token" in said or "/latest/meta-data" in said:
            means = "no credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        elif isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError) or status in (
            "401",
            "403",
        ):
            means = (
                f"no right to do this ({code or status}); look at AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION "
                "and the key's policy: it must be let read, write, delete and list"
            )
        elif "builder error" in said:
            means = "its endpoint is not https; set AWS_ALLOW_HTTP=true if that is meant"
        elif status or code:
            means = f"the service answered {code or status}, after some tries; look at it, then try again"
            if status.startswith("5"):
                return StoreUnavailable(f"artifacts at {self.where!r}: {means}")
        elif isinstance(error, OSError) and error.strerror:
            means = f"{error.strerror}; look at the disk of {str(self.cache.root)!r}"
        else:
            means = f"its endpoint cannot be reached (tried for {RETRY_S} s at most); look at AWS_ENDPOINT_URL"
            return StoreUnavailable(f"artifacts at {self.where!r}: {means}")
        return StoreError(f"artifacts at {self.where!r}: {means}")
