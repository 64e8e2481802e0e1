"""A user's own agent, in a step's worktree as `mine.py`: its tools are those that the suite's scripts call."""

import subprocess
from pathlib import Path

from agents import Agent, function_tool


@function_tool
def shell(command: str) -> str:
    command_line = ["/bin/bash", "-c", command]
    return subprocess.run(command_line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout


@function_tool
def read(path: str) -> str:
    return Path(path).read_text()


@function_tool
def write(path: str, content: str) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(content)
    return "written"


@function_tool
def edit(path: str, old: str, new: str) -> str:
    Path(path).write_text(Path(path).read_text().replace(old, new))
    return "edited"


agent = Agent(name="desk", tools=[shell, read, write, edit])
