"""How fast LongTask is, against what its database could do (`make bench`; how and why: docs/performance.md)."""
