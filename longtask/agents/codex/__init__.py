"""Codex as a runtime: its own program as a server on a pipe, one thread a run."""
