"""What a journal comes to, as spans."""

from __future__ import annotations

import json

import pytest

from longtask.core.model import Done, Failed, Kind, WhenFailed
from longtask.store.contract import JournalRow
from longtask.telemetry import genai
from longtask.telemetry.file import MEMORY, TraceFile
from longtask.telemetry.fold import Fold
from longtask.telemetry.ids import attempt_span, run_span, step_span, task_span
from longtask.telemetry.reading import read_trace
from longtask.telemetry.settings import TraceSettings
from longtask.telemetry.source import Span, SpanKind
from tests.engine.world import HANG, LEASE_MS, START, World, approval, for_each, step
from tests.telemetry.conftest import Seen

KEY = "sk-ant-" + "fake0fake1" * 4
NO = Failed("exit code 1; its last lines:\npassword hunter22 is wrong")


def test_a_step_hangs_under_its_stage_and_an_attempt_under_its_step(world: World, seen: Seen):
    world.submit(step("a"), step("b", 2), stages=2)
    assert world.run() == "completed"
    assert sorted(seen.follow().lines()) == [
        "task t",
        "task t / stage s1",
        "task t / stage s1 / step a",
        "task t / stage s1 / step a / attempt a.1",
        "task t / stage s2",
        "task t / stage s2 / step b",
        "task t / stage s2 / step b / attempt b.1",
    ]
    assert all(span.ended_at and span.status == "ok" for span in seen.spans())


def test_what_goes_on_has_no_end(world: World, seen: Seen):
    world.submit(step("a"), acts={"a": [HANG]})
    world.settle()
    world.later(4_000)
    assert {span.name: span.ended_at for span in seen.follow().spans()} == {
        "task t": 0, "stage s1": 0, "step a": 0, "attempt a.1": 0,
    }  # fmt: skip
    world.end("a", Done())
    world.run()
    assert seen.follow().named("attempt a.1").ended_at == START + 4_000


def test_the_time_in_the_queue_lies_between_a_step_and_its_attempt(world: World, seen: Seen):
    world.submit(step("a"), step("b"), acts={"a": [HANG]}, parallel=1)
    world.settle()
    world.later(7_000)
    world.end("a", Done())
    world.run()
    seen.follow()
    assert seen.named("step b").started_at == START
    assert seen.named("attempt b.1").started_at == START + 7_000
    assert seen.named("attempt b.1").attributes["longtask.queued_ms"] == 7_000


def test_each_attempt_has_a_span_and_says_how_it_ended(world: World, seen: Seen):
    world.submit(step("a", failures_max=1), acts={"a": [NO, Done()]})
    world.run()
    seen.follow()
    first, second = seen.named("attempt a.1"), seen.named("attempt a.2")
    assert (first.status, first.attributes["longtask.outcome"], first.attributes["error.type"]) == (
        "error", "failed", "failed",
    )  # fmt: skip
    assert (second.status, second.attributes["longtask.outcome"]) == ("ok", "completed")
    assert second.attributes["longtask.queued_ms"] == 0  # a backoff is no queue
    assert first.parent == second.parent == seen.named("step a").id
    assert seen.count("longtask_retries") == 1


def test_an_attempt_of_a_killed_worker_ends_as_lost(world: World, seen: Seen):
    world.submit(step("a"), acts={"a": [HANG, Done()]})
    world.settle()
    world.die()
    world.later(3 * LEASE_MS)
    world.reborn()
    assert world.run() == "completed"
    lost = seen.follow().named("attempt a.1")
    assert (lost.status, lost.attributes["longtask.outcome"]) == ("error", "lost")
    assert seen.count("longtask_lease_losses") == 1


def test_a_wait_has_a_span_of_its_own(world: World, seen: Seen):
    world.submit(approval("ok"), step("b", 2))
    world.settle()
    world.later(5_000)
    seen.follow()
    assert seen.named("wait user").ended_at == 0
    assert seen.file.waits() == [("wait user", 1, START)]
    world.answer("ok", "approve")
    world.run()
    wait = seen.follow().named("wait user")
    assert (wait.started_at, wait.ended_at) == (START, START + 5_000)
    assert wait.parent == seen.named("step ok").id
    assert seen.file.waits() == []


def test_a_question_of_the_machine_is_a_wait_too(world: World, seen: Seen):
    world.submit(step("a", when_failed=WhenFailed.ASK), acts={"a": [NO]}, attended=True)
    world.run()
    seen.follow()
    assert seen.named("attempt a.1").attributes["longtask.outcome"] == "asked:failed"
    assert seen.named("wait user").ended_at == 0


def test_items_of_a_list_hang_under_its_step(world: World, seen: Seen):
    world.submit(for_each("all", [1, 2, 3]))
    assert world.run() == "completed"
    items = [span for span in seen.follow().spans() if span.attributes.get("longtask.step.role") == "item"]
    assert len(items) == 3
    assert {span.parent for span in items} == {seen.named("step all").id}


def test_a_merge_that_takes_its_time_has_a_span(world: World, seen: Seen):
    world.submit(step("a"), step("b"), acts={"a": [HANG], "b": [HANG]}, code=True)
    world.settle()
    for key in ("a", "b"):
        world.end(key, Done(commit=world.code.commit((str(world.task.base),), (key,))))
    assert world.worker is not None
    world.worker.tick()  # reports both; no scheduler merges yet
    assert world.state("b") == "merging"
    world.now += 40
    assert world.run() == "completed"
    merges = [span for span in seen.follow().spans() if span.name == "merge"]
    assert [(span.step, span.ended_at - span.started_at) for span in merges] == [("b", 40)]
    assert seen.named("step b").attributes["longtask.state"] == "completed"
    assert seen.count("longtask_steps_ended", "completed") == 2


def test_what_is_taken_up_again_goes_on_in_the_same_spans(world: World, seen: Seen):
    world.submit(step("a"), acts={"a": [NO, Done()]})
    assert world.run() == "failed"
    before = seen.follow().named("task t")
    assert (before.status, before.attributes["longtask.state"]) == ("error", "failed")
    world.later(10_000)
    world.desk.retry(world.ref("a"), "ann")
    assert seen.follow().named("task t").ended_at == 0
    assert world.run() == "completed"
    after = seen.follow().named("task t")
    assert (after.id, after.started_at, after.status) == (before.id, before.started_at, "ok")
    assert all(span.ended_at for span in seen.spans())
    assert seen.count("longtask_tasks_ended", "failed") == seen.count("longtask_tasks_ended", "completed") == 1


def test_a_cancelled_task_leaves_nothing_open(world: World, seen: Seen):
    world.submit(step("a"), step("b", needs=["a"]), acts={"a": [HANG]})
    world.settle()
    world.desk.cancel(world.tasks[-1], "ann")
    world.later(3_000)
    world.run()
    assert world.status == "cancelled"
    spans = seen.follow().spans()
    assert all(span.ended_at for span in spans)
    assert "step b" not in [span.name for span in spans]  # it never could begin


def test_ids_follow_from_the_task_and_the_attempt(world: World, seen: Seen):
    task = world.submit(step("a"))
    world.run()
    seen.follow()
    assert seen.named("task t").id == task_span(task.id)
    assert seen.named("step a").id == step_span(task.id, "a")
    assert seen.named("attempt a.1").id == attempt_span(task.id, "a", 1)


def lively(world: World) -> None:
    """Something of everything."""
    world.submit(
        step("a", failures_max=2),
        approval("ok"),
        for_each("all", ["x", "y"], needs=["a"]),
        step("b", 2, fix=fix_work()),
        acts={"a": [NO, Done()], "b": [NO, Done()]},
    )
    world.settle()
    world.answer("ok", "approve")
    world.run()
    world.submit(step("z"), acts={"z": [NO]}, name="other")
    world.run()


def fix_work():
    from tests.engine.world import work

    return work()


@pytest.mark.parametrize("page", [1, 2, 7, 500])
def test_however_it_is_read_the_spans_and_counters_are_the_same(world: World, seen: Seen, page: int):
    lively(world)
    seen.follow()
    other = Seen(world).follow(page)
    for task in range(len(world.tasks)):
        assert other.spans(task) == seen.spans(task)
    assert other.file.counters(other.reader.database) == seen.file.counters(seen.reader.database)


def test_a_writer_that_dies_in_the_middle_writes_each_event_once(world: World, seen: Seen, monkeypatch):
    """Each batch fails at its end, at first; spans, counters and place go together."""
    lively(world)
    seen.follow()
    other = Seen(world)
    real = Fold.add
    for fatal in range(1, 60, 3):
        added = 0

        def add(self, event, fatal=fatal):
            nonlocal added
            added += 1
            if added == fatal:
                raise MemoryError
            real(self, event)

        monkeypatch.setattr(Fold, "add", add)
        with pytest.raises(MemoryError):
            while other.reader.round(fatal + 3):
                pass
            raise MemoryError  # it has come to the end
    monkeypatch.setattr(Fold, "add", real)
    other.follow()
    assert other.spans() == seen.spans()
    assert other.file.counters(other.reader.database) == seen.file.counters(seen.reader.database)


def test_reading_the_same_events_again_changes_nothing(world: World, seen: Seen):
    lively(world)
    seen.follow()
    before = seen.spans(0)
    with seen.file.batch() as batch:
        fold = Fold(batch, lambda *about: [])
        for event in world.store.events(world.tasks[0], 0, 10_000):
            fold.add(event)
    assert seen.spans(0) == before


def test_no_reason_stands_in_a_span(world: World, tmp_path):
    path = tmp_path / "traces.db"
    lively(world)
    Seen(world, path).follow().file.close()
    assert b"hunter22" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


# --- agents -------------------------------------------------------------------------------------------------------


def call(world: World, n: int, kind: str, name: str, done: bool = True, attempt: int = 1, **more) -> None:
    ref = world.ref("a")
    row = JournalRow(n, kind, name, f"f{n}", attempt, started_at=world.now)
    assert world.store.journal_started(ref, attempt, 1, row)
    if done:
        world.now += 1_000
        assert world.dispatch.journal_done(ref, attempt, 1, JournalRow(n, kind, name, f"f{n}", attempt, **more))


def agent(world: World) -> None:
    world.submit(step("a", kind=Kind.AGENT), acts={"a": [HANG, HANG]})
    world.settle()
    call(world, 1, "told", "", body={"text": "the prompt"})
    call(world, 2, "turn", "claude-x", body={"text": "hm"}, tokens_in=100, tokens_out=7, micros=1_500)
    call(world, 3, "tool", "shell", body={"text": "no such file", "failed": True})


def test_calls_of_an_agent_hang_under_its_run(world: World, seen: Seen):
    agent(world)
    world.end("a", Done())
    assert world.run() == "completed"
    run, turn, tool = (
        seen.follow().named(name) for name in ("invoke_agent agent", "chat claude-x", "execute_tool shell")
    )
    assert run.id == run_span(world.tasks[-1], "a", 1, 1)
    assert run.parent == seen.named("attempt a.1").id
    assert turn.parent == tool.parent == run.id
    assert turn.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "agent",
        "gen_ai.request.model": "claude-x",
        "gen_ai.conversation.id": f"{world.tasks[-1]}/a/1",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 7,
        "longtask.cost.micros": 1_500,
    }
    assert tool.attributes["gen_ai.tool.name"] == "shell"
    assert run.attributes["gen_ai.usage.input_tokens"] == 100
    assert turn.ended_at - turn.started_at == 1_000


def test_what_a_killed_agent_has_finished_is_there_and_what_it_had_begun_is_unknown(world: World, seen: Seen):
    agent(world)
    call(world, 4, "turn", "claude-x", done=False)
    world.die()
    world.later(3 * LEASE_MS)
    assert world.row("a").losses == 1
    seen.follow()
    turns = [span for span in seen.spans() if span.kind is SpanKind.TURN]
    assert [span.status for span in turns] == ["ok", "error"]
    assert turns[1].attributes["error.type"] == "unknown"
    assert turns[1].ended_at == seen.named("attempt a.1").ended_at


def test_each_attempt_carries_its_own_part_of_a_run(world: World, seen: Seen):
    agent(world)
    world.die()
    world.later(3 * LEASE_MS)
    world.reborn()
    world.settle()
    call(world, 4, "turn", "claude-x", attempt=2, tokens_in=5)
    world.end("a", Done())
    world.run()
    runs = [span for span in seen.follow().spans() if span.kind is SpanKind.RUN]
    assert [run.attributes["gen_ai.usage.input_tokens"] for run in runs] == [100, 5]
    assert len({run.attributes["gen_ai.conversation.id"] for run in runs}) == 1


def test_calls_of_what_still_runs_are_shown_and_not_kept(world: World, tmp_path):
    agent(world)
    call(world, 4, "tool", "shell", done=False)
    shown = read_trace(world.store, tmp_path, TraceSettings(), world.task)
    assert [(span.name, span.ended_at > 0) for span in shown.spans[4:]] == [
        ("invoke_agent agent", False), ("chat claude-x", True), ("execute_tool shell", True),
        ("execute_tool shell", False),
    ]  # fmt: skip
    with TraceFile.at(tmp_path) as file:
        assert len(file.spans(world.tasks[-1], 100)) == 4


def test_tokens_and_cost_are_counted_by_runtime_and_model(world: World, seen: Seen):
    agent(world)
    seen.follow(1)
    world.end("a", Done())
    world.run()
    seen.follow()
    assert seen.count("longtask_tokens", "other", "claude-x", "input") == 100
    assert seen.count("longtask_cost_usd", "other", "claude-x") == pytest.approx(0.0015)


@pytest.mark.parametrize("content", [False, True])
def test_answers_are_in_a_span_only_where_a_setting_asks_and_are_redacted(world: World, content: bool):
    agent(world)
    call(world, 4, "tool", "shell", body={"text": f"it is {KEY}", "failed": False})
    call(world, 5, "tool", f"say {KEY}", body={"text": ""})
    world.end("a", Done())
    world.run()
    seen = Seen(world, content=content).follow()
    told = json.dumps([(span.name, span.attributes) for span in seen.spans()])
    assert KEY not in told
    assert ("it is ***" in told) == content
    assert "the prompt" not in told


def test_a_model_with_its_provider_is_told_apart():
    from longtask.telemetry.source import Call

    name, attributes = genai.chat(Call(1, 1, "turn", "anthropic:claude-x", done_at=1), "builtin 1", "c")
    assert name == "chat claude-x"
    assert attributes["gen_ai.provider.name"] == "anthropic"


# --- reading ------------------------------------------------------------------------------------------------------


def test_a_trace_is_whole_though_nobody_has_followed(world: World, seen: Seen, tmp_path):
    lively(world)
    seen.follow()
    shown = read_trace(world.store, tmp_path, TraceSettings(), world.task)
    assert shown.spans == seen.spans()
    again = read_trace(world.store, tmp_path, TraceSettings(), world.task)
    assert again.spans == shown.spans


def test_a_trace_can_be_read_without_a_file(world: World, tmp_path):
    world.submit(step("a"))
    world.run()
    shown = read_trace(world.store, tmp_path, TraceSettings(enabled=False), world.task)
    assert len(shown.spans) == 4
    assert not list(tmp_path.iterdir())


def test_a_trace_that_was_put_away_is_read_again_when_its_task_goes_on(world: World, seen: Seen):
    world.submit(step("a"), acts={"a": [NO, Done()]})
    world.run()
    before = seen.follow().named("step a")
    while seen.file.evict(world.now + 1, 10**9):
        pass
    assert seen.spans() == []
    world.desk.retry(world.ref("a"), "ann")
    world.run()
    assert seen.follow().named("step a").started_at == before.started_at
    assert seen.named("attempt a.1").attributes["longtask.outcome"] == "failed"


def test_a_task_with_too_many_spans_keeps_the_first_and_says_so(world: World, seen: Seen, monkeypatch):
    from longtask.telemetry import file

    monkeypatch.setattr(file, "SPANS_MAX", 20)
    world.submit(*(step(f"s{n}") for n in range(30)))
    assert world.run() == "completed"
    seen.follow()
    assert len(seen.spans()) <= 20
    assert seen.named("task t").ended_at
    assert seen.file.dropped(world.tasks[-1]) > 0
    assert seen.count("longtask_steps_ended", "completed") == 30


def test_a_file_in_memory_needs_no_folder():
    with TraceFile(MEMORY) as file, file.batch() as batch:
        assert batch.add(Span("00" * 8, "t", "", SpanKind.TASK, "t", started_at=1))
