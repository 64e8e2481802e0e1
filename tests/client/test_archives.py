"""Archives by both clients, also over connections that break."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from longtask import boot
from longtask.api.server import Server, make_server
from longtask.api.settings import Settings
from longtask.config import Config
from longtask.core.errors import BadPlan, NotFound, Refused
from tests.api import plans
from tests.api.carrying import carry_to
from tests.api.live import serving
from tests.client.cutting import cutting


@pytest.fixture
def ended(client, server) -> str:
    id = client.submit(plans.running())["task"]
    carry_to(server.parts, id, "completed")
    return id


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Server]:
    parts = boot.open_parts(Config(tmp_path / "elsewhere", str(tmp_path / "elsewhere.db")))
    yield make_server(parts, Settings())
    parts.store.close()


def test_a_task_goes_from_one_server_to_another(client, connect, ended, elsewhere, tmp_path):
    file = client.export_archive(ended, tmp_path / "x.tar.gz")
    with serving(elsewhere) as there:
        other = connect(f"http://{there.host}")
        done = other.import_archive(file)
        assert done == {"task": ended, "handle": "work-1", "status": "completed", "again": False, "told": []}
        assert other.task(ended) == client.task(ended)
        assert other.import_archive(str(file))["again"]


def test_cut_on_the_way_it_goes_on_and_is_whole(connect, live, client, ended, tmp_path):
    whole = client.export_archive(ended, tmp_path / "x").read_bytes()
    with cutting(live.port, 900, 1_200, 0, 1_000) as line:
        got = connect(line.url).export_archive(ended, tmp_path / "y").read_bytes()
        assert line.connections > 3
    assert hashlib.sha256(got).digest() == hashlib.sha256(whole).digest()
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file() and path.suffix == ".part") == []


def test_sent_again_after_its_answer_was_lost_it_is_there_once(client, connect, ended, elsewhere, tmp_path):
    file = client.export_archive(ended, tmp_path / "x")
    with serving(elsewhere) as there, cutting(there.port, 0, -1, 0) as line:
        assert connect(line.url).import_archive(file)["again"]
        assert line.connections == 4
    assert len(elsewhere.parts.store.inbox(ended, 0, 9)) == 1


def test_what_is_refused_is_told_as_such(client, ended, tmp_path):
    with pytest.raises(NotFound):
        client.export_archive("nothing", tmp_path / "x")
    with pytest.raises(Refused, match="cannot be read"):
        client.import_archive(tmp_path / "nothing")
    (tmp_path / "x").write_bytes(b"x" * 3_000)
    with pytest.raises(BadPlan, match="no archive of a task"):
        client.import_archive(tmp_path / "x")
    file = client.export_archive(ended, tmp_path / "y")
    with pytest.raises(Refused, match="is here already"):
        client.import_archive(file)
