"""Synchronous ticks over a store: what callers ask (desk), what workers ask (dispatch), what must happen anyway
(scheduler).  Chance is handed in; time is the store's."""
