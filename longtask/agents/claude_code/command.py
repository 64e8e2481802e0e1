"""How Claude Code's program is called: its words, its environment, and the key, which is handed over beside both."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from longtask.agents.contract import Brief
from longtask.agents.native.outputs import schema_of
from longtask.agents.witness import VARIABLE

from .names import not_offered

KEY = "ANTHROPIC_API_KEY"
KEY_FD = "CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR"


def command_of(brief: Brief, program: Path, cwd: Path, session: str, settings: Path) -> list[str]:
    """`session`: the word that begins it or lets it go on; `settings`: a file."""
    mcp = cwd / ".mcp.json"
    return [
        *brief.inside,
        str(program), "--print", "--output-format=stream-json", "--verbose", "--include-partial-messages", session,
        "--setting-sources=project", f"--settings={settings}", "--permission-mode=default", "--strict-mcp-config",
        *([f"--mcp-config={mcp}"] if mcp.is_file() else []),
        *([f"--model={brief.model}"] if brief.model else []),
        *([f"--json-schema={json.dumps(schema_of(brief.outputs))}"] if brief.outputs else []),
        f"--disallowedTools={','.join(not_offered(brief.policy))}",
    ]  # fmt: skip


def environment_of(brief: Brief, folder: Path) -> dict[str, str]:
    """`folder`: of all that the program keeps."""
    env = {name: value for name, value in os.environ.items() if name not in (KEY, VARIABLE)}
    retries = brief.options.get("retries")
    return {
        **env,
        **({} if retries is None else {"CLAUDE_CODE_MAX_RETRIES": str(retries)}),
        "CLAUDE_CONFIG_DIR": str(folder),
        "CLAUDE_CODE_TMPDIR": os.environ.get("TMPDIR", "/tmp"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
        "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
        "CLAUDE_CODE_DISABLE_TERMINAL_TITLE": "1",
        "DISABLE_AUTOUPDATER": "1",
        "BASH_DEFAULT_TIMEOUT_MS": "600000",
        "BASH_MAX_TIMEOUT_MS": "3600000",
    }


@contextlib.contextmanager
def key_handed_over() -> Iterator[tuple[dict[str, str], list[int]]]:
    """The key in a pipe: (what the environment says of it, the descriptor)."""
    key = os.environ.get(KEY)
    if not key:
        yield {}, []
        return
    reading, writing = os.pipe()
    try:
        with open(writing, "wb") as pipe:
            pipe.write(key.encode())
        yield {KEY_FD: str(reading)}, [reading]
    finally:
        os.close(reading)
