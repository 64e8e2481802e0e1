"""What every agent runtime promises, tested alike on each: `runtimes.py` says how they differ, a file for each promise.

An attempt is a worker in a process of its own, with a home and a folder of its own, against a scripted model on
loopback.  What was asked is told by the server, what was done by files outside of any worktree.
"""
