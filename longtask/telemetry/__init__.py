"""Traces, counters and logs.  A trace is read off the journals, never kept in memory: see `fold.py`.

Nothing here imports `opentelemetry` or `prometheus_client` when it is imported, and nothing here may stop work: what
fails is logged once and tried again.
"""
