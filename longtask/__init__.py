"""LongTask keeps long work alive: a task is a graph of steps that outlives every process that runs it.

Nothing is imported here, so that `longtask --version` costs little more than starting Python: the clients are loaded
when they are asked for.
"""

__version__ = "0.1.0"
__all__ = ["AsyncClient", "Client", "__version__"]

_CLIENTS = {"Client": "longtask.client.client", "AsyncClient": "longtask.client.async_client"}


def __getattr__(name: str) -> object:
    if name not in _CLIENTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_CLIENTS[name]), name)
