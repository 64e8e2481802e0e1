"""A task as one file: written by one installation, kept for years, read by another.

    container   a tar in gzip: the manifest first, then exactly the files that it names, in its order
    manifest    which files, how long, with which SHA-256; version, task, and what the installation knew of the code
    exporting   from a store, artifacts and a hub into a file
    importing   from a file: checked to its last byte, the journal folded, and only then anything is stored

What stands in the files: docs/keeping.md.  A task is exported when it has ended, since an open one is more than its
journal: leases, questions, places in queues and worktrees belong to its installation, and two that went on with one
journal would do its steps twice.
"""
