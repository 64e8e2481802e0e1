"""LongTask beside other systems that do durable work (`make bench-peers`; how and why: docs/performance.md).

`plan` says what is measured, `venvs` installs a peer, `running` runs a driver, `report` and
`picture` tell what came out.  A peer is a folder: pinned requirements, and `drive.py`, which runs in their environment.
"""
