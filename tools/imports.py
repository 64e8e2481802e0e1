"""Checks what import-linter cannot say about imports (`make check`).

- `core` imports the standard library only, and nothing of it that reads a clock, draws chance, does I/O or starts
  a thread: a decision is the same wherever and whenever it is made.
- No import of ours is hidden in a function or behind TYPE_CHECKING: that dodges a circle, and a circle means that a
  noun lives in the wrong file.  `cli` may: it is the top layer, and a command loads only what it needs.
- Nothing is named `util`, `helper`, `manager`, `data` or `info`: such a name says nothing about what is inside.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "longtask"
IMPURE = frozenset(
    "asyncio concurrent glob io logging multiprocessing os pathlib random secrets select selectors shutil signal "
    "socket sqlite3 ssl subprocess sys tempfile threading time urllib uuid zoneinfo".split()
)
EMPTY_WORDS = frozenset("util utils helper helpers manager data info".split())


def imported(node: ast.AST) -> Iterator[str]:
    """The absolute module names that a statement imports; a relative one as `longtask`, which it stays within."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=str(module), level=0):
            yield module
        case ast.ImportFrom():
            yield PACKAGE


def hidden(tree: ast.Module) -> Iterator[ast.stmt]:
    """Import statements that do not run when the module is imported, or that run for a type checker only."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                pass
            case ast.If() if "TYPE_CHECKING" in ast.unparse(node.test):
                pass
            case _:
                continue
        for statement in node.body:
            for inner in ast.walk(statement):
                if isinstance(inner, ast.Import | ast.ImportFrom):
                    yield inner


def complaints(path: Path) -> Iterator[str]:
    """What breaks a rule in the file at `path` (relative to the repository), one line each."""
    area = path.parts[1]
    tree = ast.parse(path.read_bytes(), filename=str(path))
    if path.stem in EMPTY_WORDS:
        yield f"{path}:1: the name {path.stem!r} says nothing; name what is inside"
    for node in ast.walk(tree):
        # A relative import beyond core is refused by ruff (TID252), a sibling is core.
        sibling = isinstance(node, ast.ImportFrom) and node.level > 0
        for name in imported(node) if area == "core" and not sibling else ():
            top = name.partition(".")[0]
            line = f"{path}:{getattr(node, 'lineno', 1)}: core imports {name!r}"
            if top == PACKAGE and not f"{name}.".startswith(f"{PACKAGE}.core."):
                yield f"{line}; core knows core only"
            elif top != PACKAGE and top not in sys.stdlib_module_names:
                yield f"{line}; core imports the standard library only"
            elif top in IMPURE:
                yield f"{line}; core is pure: hand the value in"
    if area not in ("cli", "boot"):
        for statement in hidden(tree):
            for name in imported(statement):
                if name.partition(".")[0] == PACKAGE:
                    yield f"{path}:{statement.lineno}: hidden import of {name!r}; move it to the top of the file"


def main() -> int:
    """Print every complaint; 1 if there was one."""
    found = sorted({line for path in sorted(Path(PACKAGE).rglob("*.py")) for line in complaints(path)})
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
