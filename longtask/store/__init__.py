"""Keeps tasks: a contract, SQL for it, and one file per database."""
