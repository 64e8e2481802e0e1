"""The tasks: each is a plan, the end that it must come to, and what a person does about it meanwhile.

Every command tells a file outside the database what it does, before and after: `begin`, `work`, `end`.  A step may lose
its worker as often as it likes, and no step but those of `retried` and `mended` fails by itself: whatever else ends a
task otherwise than it says here is a finding.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

LEASE_S = 3.0  # of the fleet: short, so that much is taken over

# `act` is sourced by every command.  One printf is one write to a file that only grows.
ACT = """
say() {
    printf '%s %s %s %s %s %s\\n' "$1" "$LONGTASK_TASK" "$LONGTASK_STEP" "$LONGTASK_ATTEMPT" $$ "${HELD:--}" >> WITNESS
}
act() { say begin; sleep "$1"; say work; sleep "$1"; say end; }
put() { until echo "$1" > "$2"; do sleep 0.2; done; }
times() { n=$(cat "STATE/$1" 2> /dev/null || echo 0); n=$((n + 1)); echo $n > "STATE/$1"; echo $n; }
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """`acts`: (what, seconds after submission, words), done by a person.  `git`: it works on the repository."""

    name: str
    text: str
    end: str = "completed"
    acts: tuple[tuple[str, float, str], ...] = ()
    git: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where the tasks' files are, seen alike by every machine."""

    folder: Path

    @property
    def witness(self) -> Path:
        return self.folder / "witness"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def act(self) -> Path:
        return self.folder / "act.sh"

    @property
    def recording(self) -> Path:
        return self.folder / "recording.yaml"

    def make(self) -> None:
        self.state.mkdir(parents=True)
        self.act.write_text(ACT.replace("WITNESS", str(self.witness)).replace("STATE", str(self.state)))
        self.recording.write_text(dedent(RECORDING).replace("ACT", str(self.act)))


# Agents write by a command that tries again on a full disk: a recording ends when one of its tools fails.
RECORDING = """
    recording: 1
    runs:
      - step: left
        turns:
          - tools: [{tool: shell, command: ". ACT; act 0.1; put left a.txt"}, {tool: read, path: a.txt}]
            usage: {tokens_in: 10, tokens_out: 1, price: 0.001}
          - {tools: [{tool: shell, command: ". ACT; put left left.txt"}], usage: {tokens_in: 20, price: 0}}
          - {text: Done., usage: {tokens_in: 5, tokens_out: 1, price: 0}}
      - step: right
        turns:
          - tools: [{tool: shell, command: ". ACT; put right right.txt"}]
            usage: {tokens_in: 10, tokens_out: 1, price: 0.001}
          - {tools: [{tool: shell, command: ". ACT; act 0.2"}], usage: {tokens_in: 20, tokens_out: 2, price: 0}}
          - {text: Done., usage: {tokens_in: 5, tokens_out: 1, price: 0}}
      - step: clash
        turns:
          - {tools: [{tool: shell, command: ". ACT; put clash a.txt"}], usage: {tokens_in: 10, price: 0}}
          - {text: Done.}
      - step: "*.conflict.*"
        turns:
          - {tools: [{tool: shell, command: ". ACT; put both a.txt"}], usage: {tokens_in: 10, price: 0}}
          - {text: Done.}
      - step: "*.fix.*"
        turns:
          - {tools: [{tool: shell, command: ". ACT; put fixed a.txt"}], usage: {tokens_in: 10, price: 0.01}}
          - {text: Done.}
"""

AGENT = "defaults: {agent: {runtime: recorded, recording: RECORDING}}"
MANY = "losses_max: 1000"
AGAIN = (
    "retry: {max: 9, delay: 500ms}"  # an agent whose own files meet a full disk has failed; nothing else may fail it
)


def _step(id: str, seconds: float, *words: str, before: str = "", after: str = "") -> str:
    script = [". ACT", before, f"act {seconds:.2f}", after]
    lines = [f"id: {id}", MANY, *words, "run: |", *(f"  {line}" for line in script if line)]
    return f"- {lines[0]}\n" + "".join(f"  {line}\n" for line in lines[1:])


def _plan(*steps: str, head: str = "") -> str:
    body = "".join(steps)
    return f"longtask: 1\nname: NAME\n{head}\nlimits: {{parallel: 4}}\nsteps:\n" + body


def _row(seconds: list[float]) -> list[str]:
    """Each step needs the one before."""
    return [_step(f"s{n}", s, *([f"needs: [s{n - 1}]"] if n else [])) for n, s in enumerate(seconds)]


def chain(dice: random.Random) -> Shape:
    steps = [
        _step(f"s{n}", dice.uniform(0, 0.3), *([f"needs: [s{n - 1}]"] if n else [])) for n in range(dice.randint(3, 7))
    ]
    return Shape("chain", _plan(*steps))


def fanout(dice: random.Random) -> Shape:
    """Two stages, and the gate between them."""
    stages = ""
    for stage, count in (("one", dice.randint(4, 8)), ("two", 2)):
        steps = "".join(_step(f"{stage}{n}", dice.uniform(0, 0.4)) for n in range(count))
        stages += f"- name: {stage}\n  steps:\n" + "".join(f"    {line}\n" for line in steps.splitlines())
    return Shape("fanout", f"longtask: 1\nname: NAME\nlimits: {{parallel: 4}}\nstages:\n{stages}")


def each(dice: random.Random) -> Shape:
    """Items, whose outputs are collected in their order."""
    items = dice.randint(2, 7)
    wanted = "".join(f'"v": {n}' for n in range(items))
    words = [f"for_each: {list(range(items))}", "parallel_max: 3", "outputs: {v: integer}", 'env: {V: "${{ item }}"}']
    work = _step("each", dice.uniform(0, 0.2), *words, after='echo "v=$V" >> "$LONGTASK_OUTPUT"')
    words = ["needs: [each]", 'env: {GOT: "${{ steps.each.outputs }}"}']
    look = f"""[ "$(echo "$GOT" | grep -o '"v": [0-9]*' | tr -d '\\n')" = '{wanted}' ] || exit 3"""
    return Shape("each", _plan(work, _step("look", 0, *words, before=look)))


def retried(dice: random.Random) -> Shape:
    """Fails twice by itself, then not any more."""
    fails = 'say begin; [ "$(times NAME)" -gt 2 ] || { say work; exit 1; }'
    return Shape(
        "retried",
        _plan(_step("flaky", 0.1, "retry: {max: 3, delay: 100ms}", before=fails), _step("then", 0, "needs: [flaky]")),
    )


def asked(dice: random.Random) -> Shape:
    steps = (_step("before", 0.1), "- {id: ask, needs: [before], approval: {ask: 'May it?'}}\n")
    return Shape("asked", _plan(*steps, _step("after", 0.1, "needs: [ask]")))


def rejected(dice: random.Random) -> Shape:
    steps = ("- {id: ask, approval: {ask: 'May it?'}}\n", _step("after", 0, "needs: [ask]"))
    return Shape("rejected", _plan(*steps), end="failed")


def signalled(dice: random.Random) -> Shape:
    """The signal comes before the wait, or long after it has begun."""
    steps = (_step("before", dice.uniform(0.1, 0.6)), "- {id: hear, needs: [before], wait: {signal: go}}\n")
    after = dice.choice((0.0, 0.2, 2.0, 8.0))
    return Shape("signalled", _plan(*steps, _step("after", 0, "needs: [hear]")), acts=(("signal", after, "go"),))


def timed(dice: random.Random) -> Shape:
    steps = (_step("before", 0), f"- {{id: nap, needs: [before], wait: {{timer: {dice.randint(300, 6_000)}ms}}}}\n")
    return Shape("timed", _plan(*steps, _step("after", 0, "needs: [nap]")))


def exclusive(dice: random.Random) -> Shape:
    """Steps of many tasks that must never run at once."""
    name = dice.choice(("m1", "m2"))
    held = (f"mutex: {name}", f"env: {{HELD: {name}}}")
    return Shape("exclusive", _plan(_step("one", 0.1, *held), _step("two", 0.1, *held, "needs: [one]")))


def family(dice: random.Random) -> Shape:
    """A command whose children would outlive it: in sessions of their own, orphaned, and waiting for long."""
    left = "setsid sleep 600 & nohup sleep 600 > /dev/null 2>&1 & (setsid sh -c 'sleep 600 & sleep 600' &)"
    return Shape(
        "family", _plan(_step("parent", dice.uniform(0.2, 1), before=left), _step("then", 0, "needs: [parent]"))
    )


def lengthy(dice: random.Random) -> Shape:
    """Steps longer than a lease."""
    return Shape("lengthy", _plan(_step("long", LEASE_S * 0.8), _step("beside", 1)))


def cancelled(dice: random.Random) -> Shape:
    steps = (_step("quick", 0), _step("slow", 60, "needs: [quick]"), _step("never", 0, "needs: [slow]"))
    return Shape("cancelled", _plan(*steps), end="cancelled", acts=(("cancel", dice.uniform(1, 6), ""),))


def paused(dice: random.Random) -> Shape:
    at = dice.uniform(0.5, 2)
    acts = (("pause" if dice.random() < 0.5 else "pause_now", at, ""), ("resume", at + dice.uniform(1, 5), ""))
    return Shape("paused", _plan(*_row([0.3] * 4)), acts=acts)


def mended(dice: random.Random) -> Shape:
    """Fails, with what stands behind it; a person mends what was wrong, and takes it up again."""
    fails = "say begin; [ -e STATE/NAME.mended ] || { say work; exit 1; }"
    steps = (_step("broken", 0.1, before=fails), _step("behind", 0, "needs: [broken]"))
    return Shape("mended", _plan(*steps), acts=(("mend", 3.0, "broken"),))


def coded(dice: random.Random) -> Shape:
    """Agents commit side by side, one of them into a conflict at times; a command sees what they made."""
    clash = dice.random() < 0.3
    names = ("left", "right", "clash") if clash else ("left", "right")
    agents = "".join(f"- {{id: {name}, {MANY}, agent: {{prompt: 'Change it.'}}}}\n" for name in names)
    seen = '[ "$(cat a.txt)" != one ] && [ -e left.txt ] && [ -e right.txt ] || exit 3'
    needs = f"needs: [{', '.join(names)}]"
    patch = "- {id: patch, needs: [look], artifact: {patch: {name: change.patch}}}\n"
    text = _plan(agents, _step("look", 0, needs, before=seen), patch, head=f"workspace: {{repo: .}}\n{AGENT}")
    return Shape("coded", text, git=True)


def fixed(dice: random.Random) -> Shape:
    """A test that fails until an agent has changed what it tests."""
    loop = f"on_failure: {{fix: {{{MANY}, agent: {{prompt: 'Make it pass.'}}}}}}"
    test = _step("test", 0, loop, before="say begin; grep -qx fixed a.txt || { say work; exit 1; }")
    return Shape("fixed", _plan(test, head=f"workspace: {{repo: .}}\n{AGENT}"), git=True)


SHAPES: dict[Callable[[random.Random], Shape], int] = {
    chain: 20, fanout: 14, each: 12, retried: 12, asked: 14, rejected: 3, signalled: 14, timed: 10, exclusive: 24,
    family: 14, lengthy: 16, cancelled: 8, paused: 10, mended: 5, coded: 14, fixed: 10,
}  # fmt: skip


def draw(dice: random.Random, count: int, place: Place) -> list[Shape]:
    """Every shape in its share, in a drawn order; names are unique."""
    total = sum(SHAPES.values())
    kinds = [kind for kind, share in SHAPES.items() for _ in range(max(1, round(share * count / total)))]
    dice.shuffle(kinds)
    while len(kinds) < count:
        kinds.append(dice.choice(list(SHAPES)))
    return [_filled(kind(dice), n, place) for n, kind in enumerate(kinds[:count], 1)]


def _filled(shape: Shape, n: int, place: Place) -> Shape:
    name = f"{shape.name}-{n}"
    known = {"ACT": place.act, "STATE": place.state, "RECORDING": place.recording, "NAME": name}
    text = shape.text
    for word, value in known.items():
        text = text.replace(word, str(value))
    return Shape(name, text, shape.end, shape.acts, shape.git)
