"""opencode, its real program: what it alone has.  The rest is in `conformance/`, what the protocol leaves open in
`test_acp_any.py`."""

from __future__ import annotations

from tests.agents.conformance.job import make_job
from tests.agents.conformance.runtimes import OPENCODE


def test_a_tool_that_is_denied_as_a_whole_is_not_offered(tmp_path, models):
    deny = {"deny": ["web_fetch"]}
    run = make_job(tmp_path, OPENCODE, OPENCODE.models[0], models, [{"text": "Done."}], body=deny)
    assert run.attempt()["kind"] == "Done"
    offered = {tool["name"] for tool in run.asked[0].body["tools"]}
    assert "bash" in offered and "webfetch" not in offered
