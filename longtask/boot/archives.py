"""Tasks into files, and out of them: made of the parts that every command has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longtask.boot.late import LOADING
from longtask.boot.parts import Parts

if TYPE_CHECKING:
    from longtask.archive.exporting import Exporter
    from longtask.archive.importing import Importer


def make_exporter(parts: Parts) -> Exporter:
    with LOADING:
        from longtask.archive.exporting import Exporter
    return Exporter(parts.store, parts.artifacts, parts.merger.workspace)


def make_importer(parts: Parts) -> Importer:
    with LOADING:
        from longtask.archive.importing import Importer
    return Importer(parts.store, parts.artifacts, parts.config.home, parts.config.hub)
