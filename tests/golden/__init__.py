"""What old versions wrote; it must be read and folded for ever.  Files here are added, never changed."""

from typing import Any

from longtask.core.model import Step, Task


def ended(task: Task, steps: dict[str, Step]) -> dict[str, Any]:
    """What of an end is compared; enough to see a fold that went another way."""
    rows = {key: [step.state, step.attempt, step.run, step.commit, step.benign] for key, step in steps.items()}
    return {"state": task.state, "head": task.head, "spent_micros": task.spent_micros, "steps": rows}
