"""Code in the workspace: git as the checkpoint store, the merge queue, and what cleans up after them.

`Workspace` is the way in.  git.py runs the program; hub.py is our bare repository; repo.py and dirty.py the user's;
tree.py and save.py an attempt's folder, unsaved.py what no commit of it would hold; merge.py, publish.py, clean.py and
setup.py say in their names what they do.
"""

from longtask.workspace.clean import Cleaned, Reconciled
from longtask.workspace.dirty import DirtyTree
from longtask.workspace.git import GitFailed
from longtask.workspace.hub import FileStat, Stat
from longtask.workspace.merge import Conflict, Merged
from longtask.workspace.publish import NotPublished, Published
from longtask.workspace.repo import Base, Dirty
from longtask.workspace.tree import Worktree
from longtask.workspace.workspace import Workspace

__all__ = [
    "Base",
    "Cleaned",
    "Conflict",
    "Dirty",
    "DirtyTree",
    "FileStat",
    "GitFailed",
    "Merged",
    "NotPublished",
    "Published",
    "Reconciled",
    "Stat",
    "Workspace",
    "Worktree",
]
