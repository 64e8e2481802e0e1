"""Code and other bytes: changes, files, artifacts, workspaces, as OpenAPI tells them."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from longtask.api.documents.shape import TASK_ID, Page, Shape


class FileChange(Shape):
    path: str
    insertions: int
    deletions: int


class Changes(Shape):
    task: str
    base: str
    head: str
    files: list[FileChange]


class FileEntry(Shape):
    path: str = Field(examples=["shop/base.py"])
    kind: str = Field(description="file or link; links are not followed.")
    size_bytes: int
    blob: str = Field(description="What git calls its bytes: the ETag without its quotes.")


class Artifact(Shape):
    name: str
    digest: str
    size_bytes: int
    media_type: str
    step: str


class Workspace(Shape):
    id: str
    repository: str = Field(description="Its folder, or the URL that it is fetched from.")
    host: str | None = Field(description="The machine on which the repository lies; null: the server's, or a URL's.")
    url: str | None = Field(description="Where the server fetches it; null: nowhere.")
    hub: str | None = Field(
        description="Where whoever submits may push a base, a folder or a URL (to refs/longtask/bases/COMMIT); null: "
        "nowhere that this caller could reach."
    )


class ArtifactPage(Page[Artifact]):
    pass


class FilePage(Page[FileEntry]):
    pass


class WorkspacePage(Page[Workspace]):
    pass


EXAMPLES: dict[str, dict[str, Any]] = {
    "Changes": {
        "task": TASK_ID,
        "base": "9d2f3c1b7c4b0f6d1f0e4a5b6c7d8e9f0a1b2c3d",
        "head": "1f0e4a5b6c7d8e9f0a1b2c3d9d2f3c1b7c4b0f6d",
        "files": [{"path": "shop/base.py", "insertions": 12, "deletions": 3}],
    },
    "ArtifactPage": {
        "items": [
            {
                "name": "report.md",
                "digest": "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
                "size_bytes": 1_204,
                "media_type": "text/markdown",
                "step": "report",
            }
        ],
        "next": None,
    },
    "FilePage": {
        "items": [
            {
                "path": "shop/base.py",
                "kind": "file",
                "size_bytes": 1_204,
                "blob": "5716ca5987cbf97d6bb54920bea6adde242d87e6",
            }
        ],
        "next": None,
    },
    "WorkspacePage": {
        "items": [
            {
                "id": "0f6d1f0e4a5b6c7d",
                "repository": "/home/ann/shop",
                "host": "laptop",
                "url": None,
                "hub": "ssh://git@git.example.com/longtask/0f6d1f0e4a5b6c7d.git",
            }
        ],
        "next": None,
    },
}
