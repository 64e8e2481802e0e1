"""A list of the modules, in Markdown."""

from pathlib import Path

from ledger import tell

tell("summary", "all")
print("# Modules\n")
for path in sorted(Path("modules").glob("*.py")):
    print(f"- {path.stem}: {path.read_text().splitlines()[0].removeprefix('# ')}")
