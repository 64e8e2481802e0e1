"""The peers' bench without peers: plan, ratios, goals, table, picture, takeover; and the environments' pins."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.peers import report, venvs
from bench.peers.driving import Mark, Parking, TooSlow, must, taken_over
from bench.peers.picture import better, picture
from bench.peers.plan import GOALS, LONGTASK, PEERS, WORKLOADS, plan
from bench.peers.report import rows, verdicts, written
from bench.peers.running import driven

HERE = Path(report.__file__).parent


def pair(workload: str, database: str, peer: str, theirs: object, ours: object, number: int = 1) -> dict:
    def side(value: object) -> dict:
        return dict(value) if isinstance(value, dict) else {"value": value, "other": 0.1}

    return {
        "round": number,
        "workload": workload,
        "database": database,
        "peer": peer,
        "peer_database": database if database in PEERS[peer].databases else PEERS[peer].databases[0],
        "n": WORKLOADS[workload].n,
        "theirs": side(theirs),
        "ours": side(ours),
    }


def verdict(lines: list[dict], workload: str, database: str, what: str) -> report.Verdict:
    (found,) = [
        v for v in verdicts(lines) if (v.goal.workload, v.goal.database, v.goal.what) == (workload, database, what)
    ]
    return found


# --- plan ---------------------------------------------------------------------------------------------------------


def test_every_peer_and_longtask_take_turns_on_the_same_kind_of_database():
    planned = list(plan(list(PEERS), list(WORKLOADS), 3))
    for one in planned:
        assert one.ours.name == LONGTASK and one.ours.database == one.database
        if one.theirs.database != "own" and not one.workload.across:
            assert one.theirs.database == one.database
    first_round = [one for one in planned if one.round == 1]
    assert planned[: len(first_round)] == first_round  # a run that is cut short has something of everything
    beside = {(one.workload.name, one.database, one.theirs.name) for one in first_round}
    assert len(beside) == len(first_round)
    for name, peer in PEERS.items():
        assert {one.database for one in first_round if one.theirs.name == name and one.workload.name == "chain"} == {
            "postgres" if database == "own" else database for database in peer.databases
        }


def test_long_workloads_run_in_fewer_rounds():
    planned = list(plan(["dbos"], ["takeover", "chain"], 3))
    assert [one.round for one in planned if one.workload.name == "takeover"] == [1, 1]
    assert [one.round for one in planned if one.workload.name == "chain"] == [1, 1, 2, 2, 3, 3]


def test_hello_holds_longtask_on_sqlite_against_each_peer_once():
    planned = list(plan(list(PEERS), ["hello"], 1))
    assert [one.theirs.name for one in planned] == list(PEERS)
    assert {one.ours.database for one in planned} == {"sqlite"}


def test_every_goal_is_of_a_case_that_is_measured():
    cases = {(one.workload.name, one.database) for one in plan(list(PEERS), list(WORKLOADS), 1)}
    assert {(goal.workload, goal.database) for goal in GOALS} <= cases


def test_every_run_ends_before_the_harness_loses_patience():
    for workload in WORKLOADS.values():
        assert workload.wait_s_max < workload.run_s_max


# --- ratios and goals ---------------------------------------------------------------------------------------------


def test_a_ratio_is_the_median_of_the_pairs_not_the_ratio_of_medians():
    lines = [
        pair("chain", "sqlite", "dbos", theirs, ours, number)
        for number, (theirs, ours) in enumerate([(100, 400), (200, 500), (400, 800)], 1)
    ]
    (row,) = rows(lines)
    assert row.ratio is not None and (row.ratio.least, row.ratio.middle, row.ratio.most) == (2, 2.5, 4)
    assert (row.theirs, row.ours) == (report.Spread(200, 100, 400), report.Spread(500, 400, 800))


def test_the_best_peer_is_the_one_beside_which_longtask_looks_worst():
    lines = [pair("many", "postgres", "absurd", 700, 1_400), pair("many", "postgres", "restate", 1_000, 1_300)]
    found = verdict(lines, "many", "postgres", "ratio")
    assert (found.measured, found.against, found.met) == (1.3, "Restate", False)


def test_where_less_is_better_the_best_peer_needs_least():
    lines = [pair("hello", "sqlite", "absurd", 0.4, 0.2), pair("hello", "sqlite", "dbos", 0.5, 0.2)]
    found = verdict(lines, "hello", "sqlite", "ratio")
    assert (found.measured, found.against, found.met) == (0.5, "Absurd", True)


def test_a_goal_about_one_peer_looks_at_no_other():
    lines = [pair("chain", "postgres", "absurd", 800, 900), pair("chain", "postgres", "restate", 2_000, 900)]
    assert verdict(lines, "chain", "postgres", "ratio").met is True


def test_a_peer_that_fails_says_so_and_is_held_against_nobody():
    lines = [
        pair("chain", "sqlite", "dbos", {"error": "did not end within 120 s"}, 400),
        pair("chain", "sqlite", "langgraph", 100, 400),
    ]
    broken, well = rows(lines)
    assert broken.ratio is None and broken.theirs is None and broken.said == "error: did not end within 120 s"
    assert well.ratio is not None and verdict(lines, "chain", "sqlite", "ratio").measured == 4
    assert "did not end within 120 s" in report.peers_table([broken, well])


def test_what_was_not_measured_is_neither_met_nor_missed():
    assert {found.met for found in verdicts([])} == {None}
    skipped = pair("chain", "postgres", "absurd", 800, {"skipped": "no server"})
    assert verdict([skipped], "chain", "postgres", "ratio").met is None


def test_a_fan_out_is_held_against_the_small_one_of_the_same_database():
    lines = [
        pair("fanout_1000", "sqlite", "dbos", 3_000, 400),
        pair("fanout_5000", "sqlite", "dbos", 9_000, 500),
        pair("fanout_1000", "postgres", "dbos", 3_000, 100),
    ]
    found = verdict(lines, "fanout_5000", "sqlite", "growth")
    assert (found.measured, found.met) == (1.25, True)
    assert verdict(lines, "fanout_5000", "postgres", "growth").met is None
    assert "| DBOS | sqlite | 3 |" in report.growth_table(lines)


def test_who_never_takes_over_has_no_ratio_but_longtask_has_its_figure():
    never = {"value": None, "repeated": 0, "ended": False, "other": 0.0}
    ours = {"value": 16.0, "repeated": 0, "ended": True, "other": 0.0}
    (row,) = rows([pair("takeover", "postgres", "oban", never, ours)])
    assert row.ratio is None and row.said == "never"
    lines = [pair("takeover", "postgres", "oban", never, ours)]
    assert verdict(lines, "takeover", "postgres", "value").met is True
    assert verdict(lines, "takeover", "postgres", "repeated").met is True


# --- document and picture -----------------------------------------------------------------------------------------


def test_the_document_keeps_all_that_is_not_between_the_markers():
    before = f"text\n{report.BEGIN}\nold\n{report.END}\nmore <!-- end --> text\n"
    assert written(before, "new") == f"text\n{report.BEGIN}\nnew\n{report.END}\nmore <!-- end --> text\n"
    assert written(written(before, "x"), "new") == written(before, "new")


def test_the_real_document_has_the_markers_once():
    text = (venvs.ROOT / "docs" / "performance.md").read_text()
    assert text.count(report.BEGIN) == text.count(report.END) == 1


def test_every_row_of_a_table_has_as_many_cells_as_its_head():
    lines = [
        pair("chain", "sqlite", "dbos", 100, 400),
        pair("takeover", "postgres", "oban", {"value": None, "repeated": 0}, 16),
        pair(
            "parked", "postgres", "absurd", {"value": 600, "parked": 10_000, "bytes_each": 88.0, "note": "a | b"}, 900
        ),
        pair("hello", "sqlite", "restate", {"error": "x"}, 0.3),
    ]
    text = report.document(lines, {"dbos": {"dbos": "3.4.0"}})
    for table in re.split(r"\n\n", text):
        assert len({line.count("|") for line in table.splitlines()}) == 1


def test_the_picture_is_well_formed_and_has_a_bar_for_each_ratio():
    lines = [
        pair("chain", "sqlite", "dbos", 100, 400),
        pair("bytes", "postgres", "absurd", 285, 1_140),
        pair("takeover", "postgres", "oban", {"value": None}, 16),
    ]
    drawn = picture(rows(lines))
    root = ElementTree.fromstring(drawn)
    bars = [one for one in root.iter("{http://www.w3.org/2000/svg}rect") if one.get("height") == "14"]
    assert len(bars) == 2
    assert "4 ×" in drawn and "0.25 ×" in drawn
    assert picture([]).startswith("<svg")


def test_a_bar_to_the_right_means_better_whatever_the_unit():
    faster, smaller = rows([pair("chain", "sqlite", "dbos", 100, 400), pair("hello", "sqlite", "dbos", 0.4, 0.2)])
    assert (better(faster), better(smaller)) == (4, 2)


# --- what drivers share -------------------------------------------------------------------------------------------


def test_the_step_in_hand_may_run_twice_and_no_other():
    before = [Mark(0, 1, 10.0), Mark(1, 1, 11.0), Mark(2, 1, 12.0)]
    again = [*before, Mark(2, 2, 27.5), Mark(3, 2, 28.0)]
    assert taken_over(again, 1, 12.5, 4) == {"value": 15.0, "repeated": 0, "ended": True}
    assert taken_over([*again, Mark(1, 2, 29.0)], 1, 12.5, 4)["repeated"] == 1


def test_steps_of_the_other_worker_before_the_kill_are_no_takeover():
    found = [Mark(0, 2, 10.0), Mark(1, 1, 11.0)]
    assert taken_over(found, 1, 11.5, 4) == {"value": None, "repeated": 0, "ended": False}


def test_memory_of_a_wait_counts_from_the_first_fifth_on():
    parking = Parking(wanted=1_000)
    parking.parking(100)
    assert parking.first == 0
    parking.parking(200)
    parking.parking(300)
    assert parking.first == 200 and parking.before > 0


def test_what_does_not_end_is_told():
    with pytest.raises(TooSlow, match="the tasks did not end within 90 s"):
        must(False, "the tasks", 90)


# --- running and installing ---------------------------------------------------------------------------------------


def test_a_driver_that_breaks_is_a_figure_with_its_last_words(tmp_path):
    python = Path(sys.executable)
    assert driven([str(python), "-c", "raise SystemExit('no such table')"], python, 30) == {"error": "no such table"}
    assert driven([str(python), "-c", "print('{\"value\": 3}')"], python, 30) == {"value": 3}


def test_a_driver_that_hangs_is_ended_with_what_it_started(tmp_path):
    program = (
        "import pathlib, signal, subprocess, sys; "
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()']); "
        f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(child.pid)); signal.pause()"
    )
    python = Path(sys.executable)
    assert driven([str(python), "-c", program], python, 3) == {"error": "did not end within 3 s"}
    pid = int((tmp_path / "pid").read_text())
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    assert state in ("", "Z", "ZN")  # ended; whoever adopted it may not have looked yet


@pytest.mark.parametrize("name", PEERS)
def test_what_a_peer_needs_is_pinned_with_hashes_and_names_no_registry(name):
    asked = (HERE / name / "requirements.in").read_text().split()
    text = (HERE / name / "requirements.txt").read_text()
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+) \\$", text, re.MULTILINE))
    assert all(re.fullmatch(r"[\w-]+(\[[\w,]+\])?==[\w.]+", line) for line in asked)
    for line in asked:
        package, _, version = line.partition("==")
        assert pinned[package.split("[")[0]] == version
    assert text.count("==") == len(pinned) and "://" not in text and "--index" not in text
    if PEERS[name].npm:
        lock = json.loads((HERE / name / "package-lock.json").read_text())
        assert not any("resolved" in package for package in lock["packages"].values())


def test_an_environment_is_made_anew_when_its_pins_or_its_place_change(monkeypatch, tmp_path):
    peer = PEERS["dbos"]
    sources = HERE / "dbos"
    before = venvs.digest(sources, peer)
    (tmp_path / "requirements.txt").write_text((sources / "requirements.txt").read_text() + "# more\n")
    assert venvs.digest(tmp_path, peer) != before == venvs.digest(sources, peer)
    monkeypatch.setattr(venvs, "FOLDER", tmp_path)
    assert venvs.digest(sources, peer) != before
