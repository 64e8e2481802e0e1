"""The runtime `builtin`: a coding agent on Pydantic AI, with our journal at its model and at its tools.

    runtime       a run: everything that follows, put together
    model         the model seam; `turn` what a turn is in the journal, `request` one turn on the wire
    choice        a model by its name: key and name are looked at before anything is asked
    compaction    what of a long talk is left out
    toolset       the tool seam: the plan's rules (`offer`), questions to people (`asking`)
    index         full-text search;  `memory` AGENTS.md and skills;  `servers` MCP servers of `.mcp.json`
    opening       what the model is told first;  `output` how it hands over the step's outputs

Imported in the child of an attempt only, since Pydantic AI takes seconds to import.  Of Pydantic AI it leans on:
`Agent`, `WrapperModel.request`, `Model.request_stream`, `AbstractToolset`, the message types and the tree of errors;
`tests/agents/test_builtin_leans.py` holds it to them.
"""

from longtask.agents.builtin.runtime import Builtin

__all__ = ["Builtin"]
