"""What waiting may mend, and how long one waits for it.

A full or failing disk, a store or a hub that does not answer are nobody's failure, and mostly pass: whoever meets one
tries again for a minute, says so once, and only then gives up. What waiting does not mend (damage, permissions, a newer
version) is told at once.
"""

from __future__ import annotations

import errno

from longtask.core.errors import HubUnreachable, StoreBusy, StoreUnavailable

PATIENCE_MS = 60_000  # a disk is cleared, a server restarts; longer than that needs a person
AGAIN_MS = 1_000

_PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE)
# git tells it in words (LC_ALL=C), which its error keeps as `said`.  What a plan's own commands say is not looked at:
# what always fails in the same words would be tried for ever.
_WORDS = (
    "No space left on device",
    "Disk quota exceeded",
    "Input/output error",
    "Out of diskspace",  # of an index
    "unable to write new index file",
    "failed to write new configuration file",
    "couldn't write '",  # a reference: its file was opened, and could not be filled
    "couldn't close '",
    "unable to write file ",  # of a worktree
    "failed to write object",
)


def mendable(error: BaseException | None) -> bool:
    """Waiting may mend it."""
    while error is not None:
        if isinstance(error, StoreBusy | StoreUnavailable | HubUnreachable):
            return True
        if isinstance(error, OSError):
            return error.errno in _PASSING
        said = getattr(error, "said", "")
        if any(words in said for words in _WORDS):
            return True
        error = error.__cause__
    return False


class Patience:
    """How long one thing has been tried again.  Instants are those of whatever clock the caller has."""

    __slots__ = ("limit_ms", "since")

    def __init__(self, limit_ms: int = PATIENCE_MS) -> None:
        self.limit_ms = limit_ms
        self.since: int | None = None  # None: all is well

    def left(self, now: int) -> bool:
        """It has failed just now; False: not again."""
        if self.since is None:
            self.since = now
        return now - self.since < self.limit_ms

    def ease(self, now: int) -> int | None:
        """It has gone well; answers how long that took if it had not before."""
        since, self.since = self.since, None
        return None if since is None else now - since
