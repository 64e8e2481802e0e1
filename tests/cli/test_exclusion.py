"""Real programs that want the same mutex, of one task and of several: never two together."""

from __future__ import annotations

from tests.cli.shell import Shell, until

PLAN = """
longtask: 1
name: {name}
limits: {{parallel: 4}}
steps:
  - id: each
    for_each: [1, 2, 3]
    mutex: place
    run: {script}
  - {{id: free, run: "true"}}
"""
# a folder is made by one at a time: `mkdir` of the second fails, and so does its step
SCRIPT = '"mkdir {place} && sleep 0.05 && rmdir {place}"'


def test_of_programs_with_one_mutex_one_runs_at_a_time(world: Shell):
    script = SCRIPT.format(place=world.home / "place")
    names = ("x", "y", "z")
    for name in names:
        world.plan(PLAN.format(name=name, script=script))
        world("run", "--detach")
    handles = [f"{name}-{number}" for number, name in enumerate(names, 1)]

    def statuses() -> list[str]:
        return [world.here("show", handle, "--json").json["status"] for handle in handles]

    until(lambda: not set(statuses()) & {"queued", "running"})
    assert statuses() == ["completed"] * len(names)
    doctor = world.here("doctor", "--json", code=None).json
    assert [finding for finding in doctor["findings"] if finding["what"].startswith(tuple(handles))] == []
