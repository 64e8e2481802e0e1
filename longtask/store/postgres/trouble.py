"""What an error of PostgreSQL means to people, and whether waiting may mend it."""

from __future__ import annotations

import psycopg
from psycopg import errors

from longtask.core.errors import LongTaskError, Refused, StoreBusy, StoreError, StoreUnavailable

ADVICE: dict[type[psycopg.Error], str] = {
    errors.InvalidPassword: "the server refuses the password; set it in the URL, PGPASSWORD or ~/.pgpass",
    errors.InvalidAuthorizationSpecification: "the server refuses this user; look at the URL and at pg_hba.conf",
    errors.InvalidCatalogName: "there is no such database; create it (createdb)",
    errors.InsufficientPrivilege: "this user may not do that; grant it CREATE on the database, or the schema's tables",
    errors.UndefinedTable: "a table is missing; run 'longtask migrate', or name the right schema in the URL",
}
BUSY = (errors.LockNotAvailable, errors.QueryCanceled, errors.DeadlockDetected, errors.SerializationFailure)
MENDABLE = (
    errors.DiskFull, errors.OutOfMemory, errors.TooManyConnections, errors.AdminShutdown, errors.CrashShutdown,
    errors.CannotConnectNow, errors.ReadOnlySqlTransaction, errors.IdleInTransactionSessionTimeout,
    errors.ConfigurationLimitExceeded, errors.IoError,
)  # fmt: skip


def broken(error: psycopg.Error) -> bool:
    """The connection is gone, and with it the answer."""
    if error.sqlstate is None:  # the driver's own word; a plain DatabaseError if libpq noticed it while it read
        return isinstance(error, psycopg.OperationalError) or type(error) is psycopg.DatabaseError
    return error.sqlstate.startswith(("08", "57P"))


def told(error: psycopg.Error, where: str) -> LongTaskError:
    """`where` names the database and holds no password."""
    text = _first_line(error)
    if isinstance(error, errors.UniqueViolation) and error.diag.constraint_name == "task_id_key":
        return Refused("a task with this id has just been created; read it")
    if isinstance(error, BUSY):
        return StoreBusy(f"database {where} is busy: {text}; try again")
    for kind, advice in ADVICE.items():
        if isinstance(error, kind):
            return StoreError(f"database {where}: {advice} ({text})")
    if isinstance(error, MENDABLE) or broken(error):
        if "password authentication failed" in text or "no pg_hba.conf entry" in text:
            return StoreError(
                f"database {where}: the server refuses us ({text}); look at the URL and its user's rights"
            )
        if 'database "' in text and "does not exist" in text:
            return StoreError(f"database {where}: {ADVICE[errors.InvalidCatalogName]} ({text})")
        return StoreUnavailable(
            f"database {where} cannot be reached or written just now: {text}; nothing of this was written, try again"
        )
    return StoreError(
        f"database {where}: {text} ({type(error).__name__}); this is a fault of longtask, please report it"
    )


def _first_line(error: psycopg.Error) -> str:
    message = error.diag.message_primary or str(error) or type(error).__name__
    return message.strip().splitlines()[0] if message.strip() else type(error).__name__
