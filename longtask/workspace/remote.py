"""The hub that machines share: where it is, and every git command that talks to it.

`LONGTASK_HUB` names it, the same on every machine of a fleet: a folder on a shared disk, or the URL of a git
repository.  `{workspace}` in it becomes the id of the workspace; without it a folder holds one repository for each, and
a URL is one that all share, which is safe, since each reference is named by a workspace, a task or a commit.

Credentials are those that git itself finds for the user of this process (credential helpers, ssh keys, ~/.gitconfig).
Nobody is asked for any, a URL that holds a password is refused, and none of git's words leave here with what stands
before an `@` in a URL.  The address is written into no repository, so what attempts run never meets it.

Every call ends: it is stopped when it has said nothing for STALL_MS_MAX, and in any case after CALL_MS_MAX.
"""

from __future__ import annotations

import os
import re
import selectors
import signal
import stat
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

from longtask.core.errors import HubUnreachable, WorkspaceError
from longtask.workspace.git import ENVIRONMENT, MESSAGE_MAX, SETTINGS, Answer, Place, check_version, git, shown

SETTING = "LONGTASK_HUB"
WORKSPACE = "{workspace}"

STALL_MS_MAX = 30_000  # git and servers tell of their progress every second; a check of a huge pack may be silent
CALL_MS_MAX = 3_600_000  # the first push of a very large repository over a slow line
DRAIN_S = 0.5  # for the last words of a command that has ended
POLL_S = 0.1

SCHEMES = ("file", "git", "http", "https", "ssh")
SCP = re.compile(r"(?P<user>[^/@:\s]+@)?(?P<host>[^/@:\s]+|\[[0-9a-fA-F:]+\]):(?!//)(?P<path>\S+)")
_PROGRESS = re.compile(r"\d+% \(|objects: \d+|, done\.$|^Total \d|^Delta compression using|failed to push some refs")
_USERINFO = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/'\"]*@")

# What the user's own git would obey for a connection, and nothing else of the environment's.
THEIRS = (
    *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"),
    *("GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_PROXY_COMMAND", "GIT_HTTP_USER_AGENT"),
    *("GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_SSL_CERT", "GIT_SSL_KEY", "GIT_SSL_VERSION", "GIT_SSL_NO_VERIFY"),
)
OURS: Mapping[str, str] = {
    **{name: value for name, value in ENVIRONMENT.items() if name not in THEIRS},
    "GIT_ALLOW_PROTOCOL": ":".join(SCHEMES),
    "GIT_ASKPASS": "",  # empty: no program is started to ask, whatever settings and SSH_ASKPASS say
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
}
SSH = "ssh -oBatchMode=yes -oConnectTimeout=20 -oServerAliveInterval=10 -oServerAliveCountMax=3"
NETWORK: Mapping[str, str] = {
    **SETTINGS,
    "core.askPass": "",
    "credential.interactive": "false",
    "fetch.unpackLimit": "1",  # one pack that appears whole; loose objects may be left half there by a kill
    "fetch.writeCommitGraph": "false",
    "push.gpgSign": "false",
    "push.followTags": "false",
    "http.lowSpeedLimit": "1",
    "http.lowSpeedTime": str(STALL_MS_MAX // 1000),
}

# On a shared disk there is no server: its side of git runs here, and what lies there must not make it run programs.
_THERE = " ".join(
    f"-c {name}='{value}'"
    for name, value in {
        "safe.directory": "*",
        "core.hooksPath": "/dev/null",
        "core.fsmonitor": "false",
        "core.alternateRefsCommand": "true",
        "core.fsync": SETTINGS["core.fsync"],
        "receive.autogc": "false",
        "receive.shallowUpdate": "true",
    }.items()
)
UPLOAD = f"git {_THERE} upload-pack"
RECEIVE = f"git {_THERE} receive-pack"

# What git and servers say, what it means, and what to do; the first that is found counts.
TROUBLES: Sequence[tuple[str, str, str]] = (
    (
        r"no space left|disk quota|quota exceeded|exceeds? .*(limit|maximum)|too large|\b413\b|\b507\b",
        "it is full, or refuses so much",
        "make room there or raise its limit",
    ),
    (
        r"authentication failed|could not read (username|password)|permission denied|access denied|not authorized"
        r"|\b401\b|\b403\b|host key verification failed|terminal prompts disabled|insufficient permission"
        r"|read-only file system|service not enabled",
        "it refuses this user",
        "give git of the user that runs the worker the right to read and write there (credential helper, ssh key)",
    ),
    (
        r"shallow update not allowed",
        "it takes no history that is cut short",
        "make the clone whole: `git fetch --unshallow`",
    ),
    (
        r"unable to create temporary object directory|unable to (write|create)|unpack-objects abnormal exit",
        "it cannot write",
        "see that its disk has room and that this user may write there",
    ),
    (
        r"hook declined|protected|deny updating|denied|prohibited|not allowed",
        "it refuses references of ours",
        "allow this user to write and delete refs/longtask/* there",
    ),
    (
        r"no such file|does not appear to be a git repository|repository .*not found|does not exist|\b404\b"
        r"|not exported",
        "there is no such repository",
        "make an empty bare repository there",
    ),
    (
        r"resolve host|connection (refused|reset|timed out|closed)|timed? ?out|could not connect|unable to connect"
        r"|unable to access|hung up|no route|network is unreachable|name or service|unexpected disconnect|early eof",
        "it does not answer",
        "see that it runs and that this machine reaches it",
    ),
)


@dataclass(frozen=True, slots=True)
class Remote:
    """The shared repository of one workspace.  `folder`: it lies on a disk, and is made when it is missing.
    `called`: what it is to people."""

    url: str
    folder: Path | None = None
    called: str = "hub"

    @property
    def shown(self) -> str:
        return redacted(shown(self.url))


def redacted(text: str) -> str:
    """Without what stands before the `@` of a URL."""
    return _USERINFO.sub(r"\g<scheme>", text)


def remote_of(setting: str, workspace_id: str) -> Remote:
    """Raises WorkspaceError for a setting that cannot be one."""
    _check(setting)
    named = setting.replace(WORKSPACE, workspace_id)
    if named.startswith(("/", "~")):
        folder = Path(named).expanduser()
        return remote_at(str(folder if WORKSPACE in setting else folder / f"{workspace_id}.git"))
    return remote_at(named)


def remote_at(place: str) -> Remote:
    """Of a folder, or a URL, that is one workspace's.  Raises WorkspaceError."""
    _check(place)
    if place.startswith("/"):
        return Remote(place, Path(place))
    return Remote(place, Path(unquote(urlsplit(place).path)) if place.startswith("file://") else None)


def _check(setting: str) -> None:
    told = redacted(shown(setting))
    if setting.startswith(("/", "~")):
        return
    scheme, found, rest = setting.partition("://")
    if found:
        user, at, _ = rest.partition("/")[0].rpartition("@")
        if at and ":" in user:
            raise WorkspaceError(
                f"{SETTING} '{told}': holds a password, which other programs of this machine could read: "
                "leave it out, and give git a credential helper or an ssh key"
            )
        if scheme in SCHEMES:
            return
        known = ", ".join(f"{name}://" for name in SCHEMES)
        raise WorkspaceError(f"{SETTING} '{told}': no such kind of hub; give an absolute folder, or one of {known}")
    if not SCP.fullmatch(setting) or setting.startswith("-"):
        raise WorkspaceError(
            f"{SETTING} '{told}': neither an absolute folder nor the URL of a git repository, such as "
            f"ssh://git@host/longtask/{WORKSPACE}.git"
        )


def make_folder(remote: Remote, object_format: str) -> None:
    """A hub on a shared disk is made by whoever needs it first; another machine may be doing the same."""
    if remote.folder is None or (remote.folder / "HEAD").exists():
        return
    folder = remote.folder
    try:
        folder.parent.mkdir(mode=0o770, parents=True, exist_ok=True)
        shared = bool(folder.parent.stat().st_mode & stat.S_IWGRP)
        made = folder.with_name(f".{folder.name}.{os.getpid()}.{time.monotonic_ns()}")
        words = ("--bare", "--template=", f"--object-format={object_format}", *(("--shared=group",) if shared else ()))
        git(Place(cwd=folder.parent), "init", "--quiet", *words, str(made))
        with (made / "config").open("a") as file:
            file.write("[core]\n\thooksPath = /dev/null\n[gc]\n\tauto = 0\n[receive]\n\tautogc = false\n")
        made.rename(folder)
    except OSError as error:
        if (folder / "HEAD").exists():
            return
        reason = (error.strerror or str(error)).lower()
        raise HubUnreachable(
            f"hub '{remote.shown}': cannot be made: {reason}; see that the disk is there and writable"
        ) from error


# Talking


def call(
    remote: Remote,
    place: Place,
    what: str,
    *command: str,
    ok: Sequence[int] = (0,),
    settings: Mapping[str, str] | None = None,
    ssh: Sequence[str] = (),
    stall_ms: int | None = None,
) -> Answer:
    """One git command that talks to the hub.  `what`: what it is for, told in the error.  `ssh`: options of it.

    Raises HubUnreachable.
    """
    check_version()
    _check_folder(remote, what)
    env = environment(place, {**NETWORK, **(settings or {})})
    if remote.folder is None and "GIT_SSH_COMMAND" not in env and not own_ssh(env["HOME"]):
        env["GIT_SSH_COMMAND"] = " ".join([SSH, *ssh])
    stall_ms = stall_ms or STALL_MS_MAX
    process = subprocess.Popen(
        ["git", "--no-pager", *command],
        cwd=place.folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # no terminal on which anything could ask
    )
    out, err, stalled = _hear(process, stall_ms)
    said = _last_words(err)
    if stalled:
        raise HubUnreachable(
            f"{remote.called} '{remote.shown}': {what}: {stalled}; see that it runs and that this machine reaches it"
        )
    if process.returncode not in ok:
        raise trouble(remote, what, said)
    return Answer(process.returncode, out, said)


def environment(place: Place, settings: Mapping[str, str]) -> dict[str, str]:
    """Beside ours, what the user has set for connections."""
    made = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in THEIRS}
    made.pop("SSH_ASKPASS", None)
    made.setdefault("HOME", str(Path.home()))
    made.update(OURS)
    made.update(place.environment())
    made["GIT_CONFIG_COUNT"] = str(len(settings))
    for n, (key, value) in enumerate(settings.items()):
        made[f"GIT_CONFIG_KEY_{n}"] = key
        made[f"GIT_CONFIG_VALUE_{n}"] = value
    return made


@cache
def own_ssh(home: str) -> bool:
    """Whether the user has told git how to run ssh."""
    if os.environ.get("GIT_SSH"):
        return True
    env = {name: os.environ.get(name) for name in THEIRS} | {"GIT_CONFIG_COUNT": None}
    return git(Place(cwd=Path("/")), "config", "--get", "core.sshCommand", ok=(0, 1), env=env).code == 0


def _check_folder(remote: Remote, what: str) -> None:
    if remote.folder is not None and not (remote.folder / "HEAD").exists():
        raise HubUnreachable(
            f"hub '{remote.shown}': {what}: there is no such repository; see that the shared disk is mounted, and that "
            f"{SETTING} is the same on every machine"
        )


def _hear(process: subprocess.Popen[bytes], stall_ms: int) -> tuple[bytes, bytes, str]:
    """(output, errors, why it was stopped).  Whatever it says is a sign that it gets on."""
    assert process.stdout is not None and process.stderr is not None
    heard: dict[IO[bytes], bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
    begun = quiet_since = time.monotonic()
    ended_at: float | None = None
    stalled = ""
    try:
        with selectors.DefaultSelector() as selector:
            for stream in heard:
                selector.register(stream, selectors.EVENT_READ)
            while not stalled and (selector.get_map() or ended_at is None):
                for key, _ in selector.select(POLL_S) if selector.get_map() else _pause():
                    part = os.read(key.fd, 1 << 16)
                    if not part:
                        selector.unregister(key.fileobj)
                    heard[key.fileobj] += part  # type: ignore[index]
                    quiet_since = time.monotonic()
                now = time.monotonic()
                if process.poll() is not None:
                    ended_at = ended_at or now
                    if now - ended_at > DRAIN_S:
                        break  # something it has started holds the pipes
                elif (now - quiet_since) * 1000 > stall_ms:
                    stalled = f"no answer for {stall_ms // 1000} s"
                elif (now - begun) * 1000 > CALL_MS_MAX:
                    stalled = f"not done within {CALL_MS_MAX // 60_000} minutes"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # with what it has started, such as ssh
            process.wait()
        for stream in heard:
            stream.close()
    return bytes(heard[process.stdout]), bytes(heard[process.stderr]), stalled


def _pause() -> tuple[()]:
    time.sleep(POLL_S)
    return ()


def _last_words(err: bytes) -> str:
    """Of all that git has said, what is no progress."""
    lines = [line.rpartition("\r")[2].strip() for line in err.decode("utf-8", "backslashreplace").splitlines()]
    return redacted(" ".join(line for line in lines if line and not _PROGRESS.search(line)))


def trouble(remote: Remote, what: str, said: str) -> HubUnreachable:
    """What is wrong, as a person needs to hear it."""
    means, do = "git could not do it", "try it there by hand: git ls-remote"
    for pattern, meaning, remedy in TROUBLES:
        if re.search(pattern, said, re.IGNORECASE):
            means, do = meaning, remedy
            break
    words = " ".join(redacted(said).split())[:MESSAGE_MAX] or "git said nothing"
    return HubUnreachable(f"{remote.called} '{remote.shown}': {what}: {means} ({words}); {do}")
