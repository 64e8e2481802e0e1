"""What test runners print and write; `recordings/` holds what the real ones did."""
