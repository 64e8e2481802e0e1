"""Executors: one contract, one file per kind of step."""
