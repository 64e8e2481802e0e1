"""Executors, and the process trees under them."""
