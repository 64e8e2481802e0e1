"""The command line.  Faces only: every rule is the engine's."""
