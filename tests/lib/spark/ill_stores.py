"""
Stores with one segment that is missing, short or unreadable.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lib.spark.exports import SEGMENT, Growing

__all__ = ["CASES", "IllStore", "make_ill"]


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


_LEFT = 7001
WAYS: dict[str, tuple[Callable[[Path], object], int]] = {
    "missing": (Path.unlink, 0),
    "short": (lambda path: os.truncate(path, _LEFT), _LEFT),
    "unreadable": (_pipe, 0),
}
"""What happens to a segment, and how many of its bytes are left."""

PLACES = ("first", "middle", "last")


def _cases() -> Iterator[tuple[str, str, bool]]:
    for way in WAYS:
        for place in PLACES:
            for has_page in (True, False):
                # Without a live page no file says where the log began or ended.
                if has_page or way != "missing" or place == "middle":
                    yield way, place, has_page


CASES = list(_cases())
"""Way, position, and whether the live page is valid, as on the writer's host."""


@dataclass(frozen=True)
class IllStore:
    """
    A store with an ill segment.

    Attributes:
        root: of the store.
        path: of the segment's file.
        base: of the segment.
        here: offsets of the records that are still there.
        gone: offsets of the others, all of the segment.
        end: of the log before.
    """

    root: Path
    path: Path
    base: int
    here: list[int]
    gone: list[int]
    end: int


def make_ill(store: Growing, way: str, place: str, *, has_page: bool) -> IllStore:
    """
    Damages a segment of a store.
    """
    folder = store.root / "commitlog"
    bases = sorted(int(path.name) for path in folder.iterdir())
    while bases[-1] > store.offsets[-1]:
        bases.pop()
    base = {"first": bases[0], "middle": bases[1], "last": bases[-1]}[place]
    path = folder / f"{base:020}"
    sizes = store.sizes
    harm, left = WAYS[way]
    harm(path)
    if not has_page:
        (store.root / "meta" / "live").unlink()
    low, high = base + left, base + SEGMENT
    gone = [at for at in sizes if at < high and at + sizes[at] > low]
    here = [at for at in sizes if at not in gone]
    end = max(at + size for at, size in sizes.items())
    return IllStore(store.root, path, base, here, gone, end)
