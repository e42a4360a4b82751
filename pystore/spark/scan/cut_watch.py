"""
Notices that a log was cut while a task reads it, from the mapped live page.

Without the core, and without a system call for each look.
"""

from __future__ import annotations

import mmap
import struct
from typing import Self

from pystore.errors import CutError, StorageError
from pystore.fs.cut_history import CUTS_AT, CutHistory
from pystore.fs.layout import LIVE_NAME, META_NAME
from pystore.spark.plan.split import Split

__all__ = ["CutWatch"]

_PAGE = 4096
# in the live page: generation and offset of the newest cut
_CUT, _CUT_AT = struct.Struct("=QQ"), 80


class CutWatch:
    """
    The cuts of a split's log since it was planned. A context manager; one thread.

    Args:
        split: what is read. Without a generation nothing is noticed.

    Raises:
        StorageError: the live page is gone.
    """

    def __init__(self, split: Split) -> None:
        self._split = split
        self._page: mmap.mmap | None = None
        if split.generation is None:
            return
        path = f"{split.store}/{META_NAME}/{LIVE_NAME}"
        try:
            with open(path, "rb") as file:
                self._page = mmap.mmap(file.fileno(), _PAGE, prot=mmap.PROT_READ)
        except (OSError, ValueError) as error:  # a short file cannot be mapped
            raise StorageError(f"{path}: cannot read: {error}", path=path) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """
        Unmaps the page.
        """
        if self._page is not None:
            self._page.close()

    def unchanged(self) -> None:
        """
        Makes sure that the log was not cut below the split's end.

        A page of another host may be older than the plan: it shows no cut.

        Raises:
            CutError: it was cut since the split was planned.
        """
        split = self._split
        if self._page is None or split.generation is None:
            return
        now, cut = _CUT.unpack_from(self._page, _CUT_AT)
        if now <= split.generation:
            return
        history = CutHistory.decode(self._page[CUTS_AT:])
        if (
            history is not None
            and history.up_to >= now
            and history.knows(split.generation)
        ):
            least = history.least_since(split.generation)
            cut = split.to_offset if least is None else least
        elif now > split.generation + 1:
            cut = min(cut, split.from_offset)  # cuts between are not known
        if cut < split.to_offset:
            raise CutError(
                f"the log was cut at {cut} while it was read up to {split.to_offset}: "
                "read again from there",
                offset=cut,
                path=split.store,
            )
