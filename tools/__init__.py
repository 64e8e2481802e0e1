"""Small programs that keep the house in order; the Makefile runs them, the package does not contain them."""
