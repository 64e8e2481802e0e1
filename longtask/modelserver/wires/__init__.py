"""The wires: how a provider's clients ask, and how they are answered.  One file each, behind contract.py."""

from longtask.modelserver.wires.anthropic import Messages
from longtask.modelserver.wires.chat import ChatCompletions
from longtask.modelserver.wires.contract import Event, Failure, Wire
from longtask.modelserver.wires.responses import Responses

WIRES: dict[str, Wire] = {  # by the end of the path
    "/messages": Messages(),
    "/responses": Responses(),
    "/chat/completions": ChatCompletions(),
}

__all__ = ["WIRES", "Event", "Failure", "Wire"]
