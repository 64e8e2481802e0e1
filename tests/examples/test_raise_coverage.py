"""examples/raise-coverage: neither less code nor too few tests count; what is left at the end is tested."""

from __future__ import annotations

from tests.examples.conftest import Place, git

LIBRARY = {
    "accounts/__init__.py": "",
    "accounts/account.py": '''"""Accounts, in cents."""


class Refused(Exception):
    pass


class Account:
    def __init__(self, limit=0):
        self.balance = 0
        self.limit = limit

    def pay_in(self, amount):
        if amount <= 0:
            raise Refused("nothing to pay in")
        self.balance += amount

    def pay_out(self, amount):
        if amount <= 0:
            raise Refused("nothing to pay out")
        if self.balance + self.limit < amount:
            raise Refused("beyond the limit")
        self.balance -= amount


def statement(account):
    if account.balance > 0:
        return f"{account.balance / 100:.2f} credit"
    if account.balance < 0:
        return f"{-account.balance / 100:.2f} debit"
    return "even"
''',
    "tests/__init__.py": "",
    "tests/test_account.py": """import unittest

from accounts.account import Account


class AccountTest(unittest.TestCase):
    def test_what_is_paid_in_is_there(self):
        account = Account()
        account.pay_in(100)
        self.assertEqual(account.balance, 100)

    def test_what_is_paid_out_is_gone(self):
        account = Account()
        account.pay_in(100)
        account.pay_out(40)
        self.assertEqual(account.balance, 60)
""",
    "tools/cover.py": '''"""Runs the unit tests of a folder, and writes as LCOV which lines of a package they reach.

    python3 tools/cover.py PACKAGE TESTS REPORT
"""

import sys
import unittest
from pathlib import Path
from types import CodeType


def lines_of(code):
    yield from (line for _, _, line in code.co_lines() if line)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from lines_of(const)


package, tests, report = sys.argv[1:]
files = {str(path.resolve()): path for path in sorted(Path(package).rglob("*.py"))}
reached = {name: set() for name in files}


def trace(frame, event, arg):
    seen = reached.get(frame.f_code.co_filename)
    if seen is None:
        return None
    seen.add(frame.f_lineno)
    return trace


sys.path.insert(0, "")
sys.settrace(trace)
ended = unittest.main(module=None, argv=["unittest", "discover", "-t", ".", "-s", tests], exit=False)
sys.settrace(None)
with open(report, "w") as out:
    for name, path in files.items():
        lines = sorted(set(lines_of(compile(path.read_text(), name, "exec"))))
        out.write(f"SF:{path}\\n")
        out.writelines(f"DA:{line},{int(line in reached[name])}\\n" for line in lines)
        out.write(f"LF:{len(lines)}\\nLH:{len(reached[name].intersection(lines))}\\nend_of_record\\n")
sys.exit(not ended.result.wasSuccessful())
''',
}


def test_the_floor_is_reached_by_tests_alone(place: Place):
    shell = place("raise-coverage", LIBRARY)
    done = shell("run", "--foreground")
    assert "evidence: 'accounts/account.py' may be neither changed nor deleted" in done.out
    assert "of the lines are covered (coverage.lcov), at least 95" in done.out

    shown = {step["key"]: step for step in shell.here("show", "--json").json["steps"]}
    assert shown["before"]["result"]["percent"] < 80 and "accounts/account.py:15" in shown["before"]["result"]["open"]
    assert shown["tests"]["run"] == 2 and shown["after.fix.1"]["state"] == "completed"
    assert shown["after"]["result"]["coverage"] == 100 and shown["after"]["result"]["tests"] == 8
    changed = git(shell, "diff", "--name-status", "main", "longtask/raise-coverage-1").split()
    assert changed == ["A", "tests/test_refused.py", "A", "tests/test_statement.py"]
    report = shell.here("artifacts", "@last", "report.md").out
    assert "8 tests passed" in report
