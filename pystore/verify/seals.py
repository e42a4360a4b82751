"""
Compares sealed segments with their seals.
"""

from __future__ import annotations

from pathlib import Path

from pystore.core.log_reader import LogReader
from pystore.errors import FormatError
from pystore.fs.layout import META_NAME, SEALS_NAME, segment_path
from pystore.seals import list_seals, read_seal, seal_name, verify_seal
from pystore.verify.report import Damage

__all__ = ["SealCheck"]


class SealCheck:
    """
    The seals of one store. For any thread.

    Args:
        root: the directory of the store; without ``meta/seals`` it has no seals.

    Raises:
        StorageError: the directory cannot be listed.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder = root / META_NAME / SEALS_NAME
        self.bases: frozenset[int] = frozenset()
        self.damages: list[Damage] = []
        if self._folder.is_dir():
            try:
                self.bases = frozenset(list_seals(self._folder))
            except FormatError as error:
                # A wrong file name is damage; the seals are not known then.
                path = error.path or str(self._folder)
                self.damages.append(Damage(path, None, str(error), part="seal"))

    def check(self, log: LogReader, base: int) -> list[Damage]:
        """
        Compares one sealed segment with its seal.

        Returns:
            One damage for each block of the segment that differs.

        Raises:
            StorageError: reading failed.
        """
        try:
            seal = read_seal(self._folder, base)
        except FormatError as error:
            # A seal with a wrong digest is damage.
            path = str(self._folder / seal_name(base))
            return [Damage(path, base, str(error), part="seal")]
        if seal is None:  # removed meanwhile, by retention
            return []
        views = (block.view for block in log.blocks(base, seal.end_offset))
        # The digest of the seal holds, so it is the log that changed.
        path = str(segment_path(self._root, base))
        return [
            Damage(
                path,
                seal.block_range(index)[0],
                f"bytes {start} to {end} of the log differ from the sealed bytes: "
                "take the segment from a replica",
                part="log",
                basis=("seal",),
                end=end,
            )
            for index in verify_seal(seal, views)
            for start, end in [seal.block_range(index)]
        ]
