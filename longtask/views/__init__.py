"""How a task is looked at, for whoever shows it: the documents of docs/json.md, and the words in them.

Command line and API give the same documents; what is about a terminal, or about HTTP, is theirs.  Nothing here changes
anything.
"""
