"""Agents: the journal, the tools, the loop and the recordings."""
