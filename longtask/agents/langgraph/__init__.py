"""The runtime `langgraph`: the user's own graph, whose checkpoints are kept with the rows of its run.

    runtime    a run: the graph, its input, what it hands over
    saver      its checkpointer: files of the run's session, kept with every end of a node
    rows       what the journal is told: ends of nodes, turns of models, calls of tools
    asking     what a graph interrupts itself for, as a question to a person

Imported in the child of an attempt only.  Of LangGraph it leans on: `InMemorySaver` and its three maps, `astream` with
`durability` and `control`, interrupts and `Command(resume=…)`, strict resuming, and LangChain's callbacks;
`tests/agents/test_langgraph_leans.py` holds it to them.
"""

import os

# Looked at by LangSmith's client: it would send traces of all that is said to its maker.
for name in ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING", "LANGCHAIN_TRACING_V2"):
    os.environ[name] = "false"

from longtask.agents.langgraph.runtime import LangGraph  # noqa: E402

__all__ = ["LangGraph"]
