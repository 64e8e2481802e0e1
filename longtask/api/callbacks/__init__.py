"""What programs elsewhere tell this server: signals, events of forges, callbacks of calls, decisions by link.

What stands below `/v1/callbacks/` needs no token: each request proves by its signature that it may.
"""
