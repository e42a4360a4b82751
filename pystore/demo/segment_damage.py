"""
Damage of one segment of a store that a host serves, and whether a copy is whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from pystore.errors import PystoreError
from pystore.fs.layout import META_NAME, SEALS_NAME, segment_path
from pystore.segments.store_copy import StoreCopy

__all__ = ["is_whole", "rot_one_bit", "sealed_in_all"]


def is_whole(root: Path, base: int) -> bool:
    """
    Returns whether the disk has the bytes of a segment that were sealed, in each block.

    Args:
        root: of the store, open in another process or not.
        base: the first offset of the segment.
    """
    try:
        copy = StoreCopy(root)
        seal = copy.seal(base)
        if seal is None or not copy.facts.has(base) or copy.problem(base):
            return False
        blocks = range(len(seal.block_digests))
        found = copy.digests(base, blocks)
    except PystoreError:
        # There is no store now, or the file went away meanwhile.
        return False
    return tuple(found[one] for one in blocks) == tuple(seal.block_digests)


def rot_one_bit(root: Path, base: int, at: int) -> None:
    """
    Changes one bit of a segment on the disk.

    Args:
        root: of the store.
        base: the first offset of the segment.
        at: the byte in the segment.

    Raises:
        OSError: there is no such file.
    """
    with segment_path(root, base).open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 4]))
        file.flush()
        os.fsync(file.fileno())


def sealed_in_all(roots: Iterable[Path]) -> list[int]:
    """
    Returns the first offsets of the segments that each of some stores has sealed.
    """
    found: set[int] | None = None
    for root in roots:
        seals = root / META_NAME / SEALS_NAME
        names = os.listdir(seals) if seals.is_dir() else []
        bases = {
            int(stem) for name in names if (stem := name.partition(".")[0]).isdigit()
        }
        found = bases if found is None else found & bases
    return sorted(found or ())
