"""
The age of a segment: the store time of its last record.

A seal has it. A segment without a seal is scanned with all checks. A bad record is
damage, which never makes a segment old. An answer is remembered until the log is cut.

Rules: docs/crash-safety.md, A21.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pystore.bindings.ffi import Check, Stop
from pystore.core.log_reader import LogReader
from pystore.errors import CorruptError, FormatError
from pystore.fs.layout import META_NAME, SEALS_NAME, segment_name
from pystore.seals import block_digest, read_seal

__all__ = ["SegmentAges"]

_CHECKS = Check.BODY | Check.PROPERTY | Check.OFFSET


@dataclass(frozen=True, slots=True)
class _Age:
    """
    Of one segment: the newest store time, or damage.
    """

    last_ms: int | None = None
    damage_offset: int | None = None
    damage_text: str = ""


class SegmentAges:
    """
    The known ages of full segments. Any thread may use it.

    Args:
        root: the store.
        log: its log.
    """

    def __init__(self, root: Path, log: LogReader) -> None:
        self._root = root
        self._log = log
        self._generation = 0
        self._ages: dict[int, _Age] = {}

    def last_ms(self, base: int) -> int | None:
        """
        The store time of the last record of a full segment, in ms since 1970; ``None``
        if it has no record.

        Args:
            base: offset of the segment.

        Raises:
            CorruptError: the segment has a bad record, so its age is not known.
            StorageError: the system refused.
        """
        generation = self._log.ends().cut_generation
        if generation != self._generation:
            self._generation, self._ages = generation, {}
        known = self._ages
        if base not in known:
            known[base] = self._sealed(base) or self._scanned(base)
        age = known[base]
        if age.damage_offset is None:
            return age.last_ms
        raise CorruptError(
            f"{self._root}: segment {segment_name(base)} is not deleted for its age, "
            f"which is not known: damage at offset {age.damage_offset}: "
            f"{age.damage_text}: pystore doctor tells what heals it; a limit of size "
            "may delete it",
            offset=age.damage_offset,
            path=str(self._root),
        )

    def forget_below(self, offset: int) -> None:
        """
        Forget deleted segments.
        """
        self._ages = {base: age for base, age in self._ages.items() if base >= offset}

    def _sealed(self, base: int) -> _Age | None:
        """
        The age in the seal; ``None`` if there is no seal of these bytes: the last block
        must have the digest that the seal names.
        """
        try:
            seal = read_seal(self._root / META_NAME / SEALS_NAME, base)
        except FormatError:
            # A damaged seal proves nothing; `verify` reports it.
            return None
        if seal is None or seal.length_bytes != self._log.ends().segment_size:
            return None
        start, end = seal.block_range(len(seal.block_digests) - 1)
        pieces = (block.view for block in self._log.blocks(start, end))
        if block_digest(pieces) != seal.block_digests[-1]:
            return None
        return _Age(seal.last_store_ms if seal.record_count else None)

    def _scanned(self, base: int) -> _Age:
        last_ms: int | None = None
        end = base + self._log.ends().segment_size
        scan = self._log.scan(base, end, _CHECKS)
        for rows in scan:
            # Not the last one alone: without a property CRC nothing covers it.
            last_ms = max(last_ms or 0, int(rows["store_ms"].max(initial=0)))
        found = scan.cursor
        if found.stop.is_bad or found.stop == Stop.ZERO:
            return _Age(None, found.offset, found.text or "nothing was written there")
        return _Age(last_ms)
