"""What `doctor` says about a server whose rows are in order."""

import psycopg
import pytest

from longtask.store.postgres.store import PostgresStore
from tests import postgres


@pytest.fixture
def store():
    url = postgres.fresh_url()
    made = PostgresStore(url)
    yield made
    made.close()
    postgres.drop(url)


def test_whoever_keeps_a_transaction_open_is_named_with_what_ends_it(store):
    with psycopg.connect(postgres.shared_url(), application_name="a forgotten report") as forgotten:
        forgotten.execute("set transaction isolation level repeatable read")
        forgotten.execute("select 1")
        pid = forgotten.info.backend_pid
        assert not [alarm for alarm in store.alarms() if str(pid) in alarm.what], "it is young"
        [alarm] = [alarm for alarm in store.alarms(open_max_s=0) if str(pid) in alarm.what]
        assert alarm.what.startswith(f"process {pid} (a forgotten report, idle in transaction) has kept")
        assert alarm.mend == f"end it: select pg_terminate_backend({pid});"
    assert not [alarm for alarm in store.alarms(open_max_s=0) if str(pid) in alarm.what]


@pytest.mark.parametrize("name", ["fsync", "full_page_writes", "synchronous_commit", "autovacuum"])
def test_a_server_that_may_forget_is_told(store, name):
    """As the quick server of the tests does; autovacuum is on there."""
    told = [alarm for alarm in store.alarms() if f"with {name} off" in alarm.what]
    assert len(told) == (_setting(name) == "off")
    assert all(alarm.mend == f"alter system set {name} = on;" for alarm in told)


def _setting(name: str) -> str:
    with psycopg.connect(postgres.shared_url()) as line:
        found = line.execute(f"show {name}".encode()).fetchone()
        assert found is not None
        return str(found[0])
