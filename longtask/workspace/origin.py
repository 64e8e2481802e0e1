"""A repository that is named by a URL: which URLs may be, and how a task's base is fetched from there.

Of whoever names one nothing is believed: only `https`, `http`, `ssh` and `file` are spoken (never `ext::`, which runs a
program), nothing in a URL can be taken for an option, and none holds a password.  Where the user of this machine has
not named it, its host is asked at addresses that the caller has looked up and found fit, and at no others: no redirect
is followed, no proxy is asked, and a name that changes its meaning meanwhile gains nothing.

Credentials are those that git finds for the user of this process.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from longtask.core.errors import BadPlan, HubUnreachable, NotFound
from longtask.workspace import names
from longtask.workspace.git import Answer, Place, shown
from longtask.workspace.hub import Hub, Move, Origin, has_commit, move_refs
from longtask.workspace.remote import SCP, UPLOAD, Remote, call, redacted

SCHEMES = ("https", "http", "ssh", "file")
PORTS = {"https": 443, "http": 80, "ssh": 22}
LENGTH_MAX = 2_000
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?\.?|[0-9A-Fa-f:]+(%[A-Za-z0-9]+)?")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_ID = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_UNHELPFUL = re.compile(r"unadvertised object|not our ref|allow.*sha1", re.IGNORECASE)


def is_url(repo: str) -> bool:
    """And no path: `https://…`, `git@host:path`, whatever its worth."""
    return "://" in repo or (bool(SCP.fullmatch(repo)) and "@" in repo.partition(":")[0])


def check(url: str) -> str:
    """The URL, always written in one way.  Raises BadPlan."""
    told = f"repo '{redacted(shown(url))[:200]}'"
    if len(url) > LENGTH_MAX or any(c <= " " or c == "\x7f" for c in url):
        raise BadPlan(f"{told}: blanks, or more than {LENGTH_MAX:,} characters, stand in no URL of a repository")
    scheme, host, user, path = _parts(url, told)
    if scheme == "file":
        if host or not path.startswith("/"):
            raise BadPlan(f"{told}: a file is named as file:///PATH")
    elif not _HOST.fullmatch(host):
        raise BadPlan(f"{told}: its host is none; write such as https://git.example.com/shop.git")
    if user and (scheme != "ssh" or not _USER.fullmatch(user)):
        raise BadPlan(
            f"{told}: holds a name or a password: leave it out, and give git a credential helper or an ssh key"
        )
    if not path.strip("/") or path.lstrip("/").startswith("-") or "\\" in path:
        raise BadPlan(f"{told}: its path is that of no repository")
    return url.rstrip("/")


def _parts(url: str, told: str) -> tuple[str, str, str, str]:
    """Scheme, host, user and path."""
    if "://" not in url:
        found = SCP.fullmatch(url)
        if found is None:
            raise BadPlan(f"{told}: no URL of a repository; write such as https://git.example.com/shop.git")
        return "ssh", found["host"].strip("[]"), (found["user"] or "").removesuffix("@"), found["path"]
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise BadPlan(f"{told}: the URL cannot be read") from None
    if parts.scheme not in SCHEMES:
        raise BadPlan(
            f"{told}: fetched is by {', '.join(SCHEMES[:-1])} and {SCHEMES[-1]}, not by {parts.scheme[:20]!r}"
        )
    if parts.query or parts.fragment or parts.password is not None:
        raise BadPlan(f"{told}: holds a password, a query or a fragment: leave them out")
    return parts.scheme, host, parts.username or "", parts.path


def where(url: str) -> tuple[str, str, int]:
    """(scheme, host, port) of a URL that was checked; of a file there is no host."""
    scheme, host, _, _ = _parts(url, "repo")
    port = urlsplit(url).port if "://" in url else None
    return scheme, host, port or PORTS.get(scheme, 0)


def address(url: str) -> tuple[str, str] | None:
    """Host and path: the same for the ways in which one repository may be reached.  None: it is no URL."""
    try:
        scheme, host, _, path = _parts(url, "repo")
    except BadPlan:
        return None
    return (host.lower() or scheme, path.strip("/").removesuffix(".git"))


def origin_id(url: str) -> str:
    """The same on every machine."""
    return hashlib.sha256(b"url\0" + url.encode()).hexdigest()[:16]


def take_base(hub: Hub, ref: str | None, pinned: Sequence[str] = ()) -> tuple[str, str | None]:
    """Fetch a branch, a tag, a commit, or what the repository itself begins with (None); the commit, and its branch.

    Raises NotFound, HubUnreachable.
    """
    assert hub.origin is not None
    asked = _Asked(hub.origin, hub.place, pinned)
    commit, name = (ref, None) if ref is not None and _ID.fullmatch(ref) else asked.find(ref)
    assert commit is not None
    if not has_commit(hub, commit):
        asked.fetch(hub, commit, name)
    move_refs(hub, [Move(names.base_ref(commit), commit)])
    return commit, name.removeprefix("refs/heads/") if name and name.startswith("refs/heads/") else None


def look(origin: Origin, folder: Path, pinned: Sequence[str] = ()) -> str:
    """The commit that a repository begins with, before anything is kept of it.  Raises NotFound, HubUnreachable."""
    return _Asked(origin, Place(cwd=folder), pinned).find(None)[0]


class _Asked:
    """The repository, for a few questions.  `pinned`: none for one that may lead anywhere."""

    def __init__(self, origin: Origin, place: Place, pinned: Sequence[str]) -> None:
        anywhere = origin.reach == "anywhere"
        assert anywhere or (origin.reach == "public" and pinned), "nobody has said where it may lead"
        self._place, self._url = place, origin.url
        self._remote = Remote(self._url, called="repository")
        self._settings: dict[str, str] = {}
        self._ssh: list[str] = []
        if not anywhere:
            self._pin(pinned)

    def _pin(self, addresses: Sequence[str]) -> None:
        _, host, port = where(self._url)
        written = ",".join(f"[{address}]" if ":" in address else address for address in addresses)
        name = f"[{host}]" if ":" in host else host
        self._settings = {
            "http.curloptResolve": f"{name}:{port}:{written}",
            "http.followRedirects": "false",
            "http.proxy": "",
        }
        alias = host if port == PORTS["ssh"] else f"[{host}]:{port}"
        self._ssh = [f"-oHostName={addresses[0]}", f"-oHostKeyAlias={alias}", "-oProxyCommand=none", "-oProxyJump=none"]

    def find(self, ref: str | None) -> tuple[str, str]:
        """A commit, and the reference that leads to it."""
        wanted = ["HEAD"] if ref is None else [f"refs/heads/{ref}", f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}"]
        if ref is not None and ref.startswith("refs/"):
            wanted = [f"{ref}^{{}}", ref]
        said = self._call("reading its references", "ls-remote", "--symref", *self._upload, self._url, *wanted).out
        lines = [line.split("\t") for line in said.decode("utf-8", "replace").splitlines()]
        found = {name: id for id, name in lines if _ID.fullmatch(id)}
        heads = {name: text.removeprefix("ref: ") for text, name in lines if text.startswith("ref: ")}
        for name in wanted:
            if name in found:
                return found[name], heads.get(name, name.removesuffix("^{}"))
        what = "no commit yet" if ref is None else f"base {shown(ref)!r}: no such branch or tag"
        raise NotFound(f"repository '{self._remote.shown}': {what}")

    def fetch(self, hub: Hub, commit: str, name: str | None) -> None:
        try:
            self._fetch(f"+{commit}:{names.base_ref(commit)}")
        except HubUnreachable as error:
            if not _UNHELPFUL.search(str(error)):
                raise
            if name is not None:  # it hands out references only
                self._fetch(name)
        if not has_commit(hub, commit):
            raise NotFound(f"repository '{self._remote.shown}': commit {commit[:12]} is not there; push it there first")

    def _fetch(self, spec: str) -> None:
        words = ["--progress", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance"]
        self._call("fetching the base", "fetch", *words, *self._upload, self._url, spec)

    @property
    def _upload(self) -> list[str]:
        return [f"--upload-pack={UPLOAD}"] if self._url.startswith("file:") else []

    def _call(self, what: str, *words: str) -> Answer:
        return call(self._remote, self._place, what, *words, settings=self._settings, ssh=self._ssh)
