"""LongTask keeps long work alive: a task is a graph of steps that outlives every process that runs it.

Nothing is imported here, so that `longtask --version` costs little more than starting Python.
"""

__version__ = "0.1.0"
