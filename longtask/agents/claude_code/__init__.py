"""Claude Code as a runtime: its own program, in print mode, one session a run."""
