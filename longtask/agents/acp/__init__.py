"""Any agent that speaks the Agent Client Protocol, as a runtime: its own program on a pipe, one session a run."""
