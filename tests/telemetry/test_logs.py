"""Log lines: as text, or each as one JSON object that says the same."""

from __future__ import annotations

import io
import json
import logging

import pytest

from longtask.core.errors import BadPlan
from longtask.telemetry import settings
from longtask.telemetry.logs import JsonLines, formatter

TASK = "019b76da-a800-7000-8000-000000000001"


def told(text: str, *args, exc_info=None) -> dict:
    record = logging.LogRecord("longtask.worker", logging.WARNING, __file__, 1, text, args, exc_info)
    line = JsonLines().format(record)
    assert "\n" not in line
    return json.loads(line)


def test_the_values_of_a_line_are_fields_with_their_names():
    line = told("lease.lost task=%s step=%s attempt=%d: %s", TASK, "build", 3, StopIteration("gone"))
    assert (line["event"], line["level"], line["logger"]) == ("lease.lost", "warning", "longtask.worker")
    assert (line["task"], line["step"], line["attempt"]) == (TASK, "build", 3)
    assert line["message"] == f"lease.lost task={TASK} step=build attempt=3: gone"


def test_a_line_about_a_task_names_its_trace():
    assert told("task.pruned task=%s", TASK)["trace_id"] == TASK.replace("-", "")


def test_lines_of_others_are_told_too():
    assert told("100%% of %s", "it")["message"] == "100% of it"
    assert told("nothing to see")["message"] == "nothing to see"
    assert "event" not in told("Uvicorn running on %s", "x")
    assert told("message=%s at=%s", "mine", "then")["message"] == "message=mine at=then"  # what is ours stays ours


def test_an_exception_is_one_field():
    try:
        raise ValueError("no")
    except ValueError as error:
        line = told("tick.error what=%r", "work", exc_info=(ValueError, error, error.__traceback__))
    assert line["what"] == "work"
    assert line["exception"].endswith("ValueError: no")


def test_one_setting_chooses():
    assert isinstance(formatter({"LONGTASK_LOG_FORMAT": "json"}), JsonLines)
    assert not isinstance(formatter({}), JsonLines)
    with pytest.raises(BadPlan, match="LONGTASK_LOG_FORMAT 'xml': write text or json"):
        formatter({"LONGTASK_LOG_FORMAT": "xml"})


def test_text_stays_as_it_was():
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter({}))
    handler.emit(logging.LogRecord("x", logging.INFO, __file__, 1, "worker.ended worker=%s", ("w1",), None))
    assert stream.getvalue().endswith(" INFO worker.ended worker=w1\n")


def test_settings_are_checked():
    assert settings.load({}) == settings.TraceSettings()
    chosen = settings.load({"LONGTASK_TRACE": "off", "LONGTASK_TRACE_DAYS": "3", "LONGTASK_TRACE_MB": "9"})
    assert (chosen.enabled, chosen.keep_ms, chosen.bytes_max) == (False, 3 * 86_400_000, 9_000_000)
    for name, wrong in (("LONGTASK_TRACE", "maybe"), ("LONGTASK_TRACE_DAYS", "0"), ("LONGTASK_TRACE_MB", "1e3")):
        with pytest.raises(BadPlan, match=name):
            settings.load({name: wrong})


def test_no_key_stands_in_a_log():
    key = "sk-ant-" + "fake0fake1" * 4
    line = told("agent.error task=%s: it said %s", f"t {key}", key)
    assert key not in json.dumps(line)
    record = logging.LogRecord("x", logging.INFO, __file__, 1, "said %s", (key,), None)
    assert key not in formatter({}).format(record)
