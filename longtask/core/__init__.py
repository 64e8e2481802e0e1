"""The pure heart: no I/O, no clock, no randomness, no async; standard library only."""
