"""examples/upgrade-library: the set-up runs anew, the tests fail, a fix mends them, a person approves."""

from __future__ import annotations

import zipfile
from pathlib import Path

from tests.cli.shell import Shell
from tests.examples.conftest import Place, git

UNITS = {
    "1.4": '''
"""Amounts in other units."""

GRAMS = {"g": 1.0, "kg": 1000.0, "lb": 453.59237}


def to_grams(amount, unit):
    return amount * GRAMS[unit]
''',
    "2.0": '''
"""Amounts in other units."""

from decimal import Decimal

GRAMS = {"g": Decimal(1), "kg": Decimal(1000), "lb": Decimal("453.59237")}


def convert(amount, unit, to):
    return Decimal(str(amount)) * GRAMS[unit] / GRAMS[to]
''',
}
LIBRARY = {
    "labels.py": '''
"""What stands on the label of a parcel."""

from units import to_grams


def grams(amount, unit):
    return to_grams(amount, unit)


def weight(amount, unit):
    return f"{grams(amount, unit):.1f} g"


def price(amount, unit, price_per_gram):
    return f"{grams(amount, unit) * price_per_gram:.2f} EUR"
''',
    "tests/__init__.py": "",
    "tests/test_labels.py": """
import unittest

from labels import price, weight


class LabelsTest(unittest.TestCase):
    def test_weight(self):
        self.assertEqual(weight(1.5, "kg"), "1500.0 g")

    def test_weight_in_pounds(self):
        self.assertEqual(weight(2, "lb"), "907.2 g")

    def test_price(self):
        self.assertEqual(price(1.5, "kg", 0.02), "30.00 EUR")

    def test_price_of_nothing(self):
        self.assertEqual(price(0, "g", 0.02), "0.00 EUR")
""",
    "requirements.txt": "units==1.4\n",
    "CHANGES-units.md": """
# units 2.0

- to_grams is gone; write convert(amount, unit, to="g").
- Amounts are Decimal.
""",
    ".gitignore": ".packages/\n",
}


def wheel(folder: Path, version: str) -> None:
    about = f"units-{version}.dist-info"
    files = {
        "units.py": UNITS[version],
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: units\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{about}/RECORD"))
    with zipfile.ZipFile(folder / f"units-{version}-py3-none-any.whl", "w") as made:
        for name, text in {**files, f"{about}/RECORD": record}.items():
            made.writestr(name, text)


def test_a_library_moves_to_the_next_version_of_what_it_is_built_on(place: Place, tmp_path: Path):
    wheels = tmp_path / "repo" / "wheels"
    wheels.mkdir(parents=True)
    for version in UNITS:
        wheel(wheels, version)
    shell = place("upgrade-library", LIBRARY)

    asked = shell("run", "--foreground", code=3)
    assert "round 1: a fix begins: exit code 1: FAILED (errors=2)" in asked.out
    assert "'decimal.Decimal' and 'float'" in shell.here("logs", "@last", "tests", "--attempt", "1").out
    assert "units is at 2.0 and 4 tests pass. Deliver this change?" in asked.out
    assert steps(shell) == {
        "baseline": "completed", "upgrade": "completed", "tests": "completed", "tests.fix.1": "completed",
        "review": "waiting", "patch": "blocked", "report": "blocked",
    }  # fmt: skip

    shell("approve", "@last", "review")
    shell("watch")
    patch = shell.here("artifacts", "@last", "upgrade.patch").out
    assert "+units==2.0" in patch and "Decimal(str(price_per_gram))" in patch and "tests/" not in patch
    assert git(shell, "show", "longtask/upgrade-library-1:requirements.txt") == "units==2.0"
    assert git(shell, "show", "main:requirements.txt") == "units==1.4"


def steps(shell: Shell) -> dict[str, str]:
    return {step["key"]: step["state"] for step in shell.here("show", "--json").json["steps"]}
