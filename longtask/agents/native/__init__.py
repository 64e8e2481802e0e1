"""What the agents that are programs of their own have in common."""
