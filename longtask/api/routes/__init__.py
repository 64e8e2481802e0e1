"""One file for each kind of thing that has an address.  `router(server)` gives its routes."""
