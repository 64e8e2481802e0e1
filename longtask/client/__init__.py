"""The HTTP API from Python: `longtask.Client` and `longtask.AsyncClient`.

What is asked is written once, as values (`v1.py`); what becomes of an answer, of a broken connection and of a stream
is decided once, without sockets (`course.py`, `streams.py`, `fetching.py`); `client.py` sends it, blocking or awaiting.
Below the command line, beside the server, of which it knows documents only; httpx is loaded with `client.py` alone.
"""
