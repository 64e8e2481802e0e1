"""Rules about an agent's calls: deny before ask, ask before tools; a part of a shell command counts like a whole."""

import pytest

from longtask.agents.policy import Policy, Verdict, parse

RULES = Policy(
    tools=("read", "edit(src/*)", "shell(pytest*)", "shell(git *)"),
    ask=("shell(git push*)", "mcp.github.*"),
    deny=("edit(src/secrets/*)", "shell(*rm -rf*)"),
)


@pytest.mark.parametrize(
    ("tool", "about", "verdict"),
    [
        ("read", "anything", "allow"),
        ("write", "src/a.py", "deny"),  # not among the tools
        ("edit", "src/a.py", "allow"),
        ("edit", "docs/a.md", "deny"),
        ("edit", "src/secrets/key", "deny"),
        ("shell", "pytest -q", "allow"),
        ("shell", "git status", "allow"),
        ("shell", "git push origin main", "ask"),
        ("shell", "cd x && git push", "ask"),
        ("shell", "true; echo $(git push)", "ask"),
        ("shell", "pytest; rm -rf /", "deny"),
        ("mcp.github.create_issue", "", "ask"),
        ("mcp.jira.close", "", "deny"),
    ],
)
def test_a_call_falls_under_its_rule(tool, about, verdict):
    assert RULES.of(tool, about) == Verdict(verdict)


def test_without_rules_everything_is_allowed():
    assert Policy().of("shell", "rm -rf build") is Verdict.ALLOW
    assert Policy(ask=("shell",)).of("edit", "a.py") is Verdict.ALLOW


def test_a_model_is_shown_what_some_call_could_be_made_of():
    assert RULES.offers("shell") and RULES.offers("edit") and RULES.offers("mcp.github.create_issue")
    assert not RULES.offers("write")
    assert Policy(deny=("shell(rm*)",)).offers("shell")
    assert not Policy(deny=("shell",)).offers("shell")


@pytest.mark.parametrize("rule", ["", "shell(", "shell()", "a b", "(x)"])
def test_what_is_no_rule_is_refused(rule):
    with pytest.raises(ValueError, match="write a tool"):
        parse(rule)
