"""LongTask's tests: from outside, from inside, and broken on purpose."""
