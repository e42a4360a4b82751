"""
Sealed segments against their seals.
"""

from __future__ import annotations

from pathlib import Path

from pystore.core.log_reader import LogReader
from pystore.errors import FormatError
from pystore.fs.layout import META_NAME
from pystore.seals import list_seals, read_seal, seal_name, verify_seal
from pystore.verify.report import Damage

__all__ = ["SealCheck"]

SEALS_NAME = "seals"


class SealCheck:
    """
    The seals of one store. Any thread.

    Args:
        root: of the store; one without ``meta/seals`` has no seals.

    Raises:
        StorageError: the directory cannot be listed.
    """

    def __init__(self, root: Path) -> None:
        self._folder = root / META_NAME / SEALS_NAME
        self.bases: frozenset[int] = frozenset()
        self.damages: list[Damage] = []
        if self._folder.is_dir():
            try:
                self.bases = frozenset(list_seals(self._folder))
            except FormatError as error:
                # A name that is none is a finding; seals cannot be told then.
                path = error.path or str(self._folder)
                self.damages.append(Damage(path, None, str(error)))

    def check(self, log: LogReader, base: int) -> list[Damage]:
        """
        Compares one sealed segment with its seal.

        Returns:
            What differs: one for each block of the segment.

        Raises:
            StorageError: reading failed.
        """
        path = str(self._folder / seal_name(base))
        try:
            seal = read_seal(self._folder, base)
        except FormatError as error:
            # A seal that does not prove itself is a finding.
            return [Damage(path, base, str(error))]
        if seal is None:  # removed meanwhile, by retention
            return []
        views = (block.view for block in log.blocks(base, seal.end_offset))
        return [
            Damage(
                path,
                seal.block_range(index)[0],
                f"bytes {start} to {end} of the log are not what was sealed: "
                "take the segment from a replica",
            )
            for index in verify_seal(seal, views)
            for start, end in [seal.block_range(index)]
        ]
