"""
``meta/live``: the mapped page in which a writer publishes its ends to readers.

Source: docs/crash-safety.md, A4.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, NamedTuple, Self

from pystore.bindings.ffi import borrow, check, ffi, give_back, lib
from pystore.errors import ClosedError, InvalidError
from pystore.stored_names import stored

if TYPE_CHECKING:
    from types import TracebackType

    from pystore._core import CData

__all__ = ["LivePage", "LiveWords", "packed_words"]


@stored
class LiveWords(NamedTuple):
    """
    The words of ``meta/live``; each is read atomically, but not all at one moment.

    Attributes:
        format: the version of the page.
        incarnation: the counter of the writer's incarnation.
        boot_id: of the machine, 16 bytes; all zero: the page is not valid.
        mount_id: of the file system.
        published_end: readers may read up to here.
        synced_end: the bytes below survive a power cut.
        confirm_offset: the bytes below are safe on the set of replicas.
        min_offset: the first byte that is not deleted.
        cut_generation: rises with every cut.
        cut_offset: of the newest cut.
    """

    format: int
    incarnation: int
    boot_id: bytes
    mount_id: int
    published_end: int
    synced_end: int
    confirm_offset: int
    min_offset: int
    cut_generation: int
    cut_offset: int


_WORDS = struct.Struct("=QQ16sQQQQQQQ")


def packed_words(words: LiveWords, path: str) -> CData:
    """
    The words of the page at a path, as the core takes them.

    Raises:
        InvalidError: a word that does not fit.
    """
    try:
        raw = _WORDS.pack(*words)
    except struct.error as error:
        raise InvalidError(f"no words for {path}: {error}") from error
    packed = ffi.new("ps_live_words *")
    ffi.memmove(packed, raw, len(raw))
    return packed


class LivePage:
    """
    The live page, mapped. Any thread may call.

    Args:
        path: of the file.
        writable: for the one writer; readers cannot change a word.

    Raises:
        StorageError: the system refused.
        NotAStoreError: the file is missing, of a wrong size, or no live page.
    """

    __slots__ = ("_held", "path")

    def __init__(self, path: str | os.PathLike[str], *, writable: bool = False) -> None:
        self.path = os.fspath(path)
        found = ffi.new("ps_live **")
        scratch = borrow()
        status = lib.ps_live_open(
            os.fsencode(self.path), int(writable), found, scratch.error
        )
        check(status, scratch.error, self.path)
        give_back(scratch)
        # Unmapped with the last reference: a log that uses the page keeps one.
        self._held: CData | None = ffi.gc(found[0], lib.ps_live_close)

    @staticmethod
    def create(path: str | os.PathLike[str]) -> None:
        """
        Writes a new page of zero words, allocated and synced.

        Raises:
            StorageError: the system refused.
            FullError: no space.
        """
        scratch = borrow()
        status = lib.ps_live_create(os.fsencode(path), scratch.error)
        check(status, scratch.error, os.fspath(path))
        give_back(scratch)

    @property
    def pointer(self) -> CData:
        """
        The ``ps_live``; a reference to it keeps the page mapped.

        Raises:
            ClosedError: after ``close``.
        """
        held = self._held
        if held is None:
            raise ClosedError(f"{self.path} was closed", path=self.path)
        return held

    def read(self) -> LiveWords:
        """
        Returns all words, each read atomically.

        Raises:
            ClosedError: after ``close``.
        """
        words = ffi.new("ps_live_words *")
        lib.ps_live_read(self.pointer, words)
        return LiveWords._make(_WORDS.unpack(ffi.buffer(words)))

    def begin(self, words: LiveWords) -> None:
        """
        Begins a writer: writes all words, the boot id last, then syncs the page.

        Raises:
            StorageError: the page could not be synced.
            InvalidError: opened for reading, or a word that does not fit.
            ClosedError: after ``close``.
        """
        packed = packed_words(words, self.path)
        scratch = borrow()
        status = lib.ps_live_begin(self.pointer, packed, scratch.error)
        check(status, scratch.error, self.path)
        give_back(scratch)

    def close(self) -> None:
        """
        Drops the page; calling it again is allowed. A log that uses it keeps it mapped.

        A page that was opened for writing and not begun is as it was before.
        """
        held, self._held = self._held, None
        if held is not None:
            lib.ps_live_unclaim(held)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
