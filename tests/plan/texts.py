"""What the plan tests share: a plan around a few lines, and the problems of a text."""

from longtask.core.errors import BadPlan
from longtask.plan import load

HEAD = "longtask: 1\nname: demo\n"
AGENT = "defaults: {agent: {runtime: recorded, recording: r.yaml}}\n"
REPO = "workspace: {repo: .}\n"


def steps(*lines: str, head: str = HEAD) -> str:
    """A plan of one stage; each line is one step in flow style, without its dash."""
    return head + "steps:\n" + "".join(f"  - {line}\n" for line in lines)


def problems(text: str | bytes, file: str = "p.yaml") -> list[str]:
    """Every message, with `line:column: ` before it where it has a place; empty if the plan holds."""
    try:
        load(text, file)
    except BadPlan as error:
        return [f"{p.line}:{p.column}: {p.message}" if p.line else p.message for p in error.problems]
    return []


def said(text: str | bytes, file: str = "p.yaml") -> list[str]:
    """The messages alone."""
    try:
        load(text, file)
    except BadPlan as error:
        return [p.message for p in error.problems]
    return []
