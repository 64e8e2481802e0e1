"""The server's side of workers elsewhere (`longtask worker --server URL`): the calls of `engine.dispatcher` over HTTP.

A worker has the name that it gives itself and its token's public id; so each attempt is one token's own.
"""
