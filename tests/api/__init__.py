"""From outside: HTTP."""
