"""
Damage to a store: a file is removed, shortened, loses a page or a bit, is older, or is
that of another replica.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import NamedTuple

from damage.stores import Kept

from pystore.fs.layout import COMMIT_LOG

__all__ = ["Harm", "harm"]

SECTOR = 512
# The files of a store, the log more often: below a directory one file is chosen.
PLACES = (
    COMMIT_LOG,
    COMMIT_LOG,
    COMMIT_LOG,
    "consumequeue",
    "meta/seals",
    "meta/live",
    "meta/lmdb/data.mdb",
    "checkpoint",
    "abort",
    "epochFileCheckpoint",
)
WAYS = ("remove", "shorten", "page", "bit", "bit", "field", "field", "older", "replica")

# The fields of a record up to its body: where each begins and ends.
FIELDS = tuple(
    (at, at + size)
    for at, size in (
        (0, 4), (4, 4), (8, 4), (12, 4), (16, 4), (20, 8), (28, 8), (36, 4), (40, 8),
        (48, 8), (56, 8), (64, 8), (72, 4), (76, 8), (84, 4),
    )
)  # fmt: skip
HOST_OF_16_BYTES = (0x10, 0x20)  # flags of the field at 36


class Harm(NamedTuple):
    """
    One damage: the file below the root, and the way.
    """

    path: str
    way: str


def harm(root: Path, draw: random.Random, kept: Kept) -> list[Harm]:
    """
    Damages a store in one way, at times in two. The files stay the same ones, as for a
    process that has them open.

    Args:
        root: of the store.
        draw: chooses.
        kept: what the store was.
    """
    done = []
    for _ in range(draw.choice((1, 1, 1, 2))):
        path = _choose(root, draw)
        if path is not None:
            way = draw.choice(WAYS)
            name = path.relative_to(root)
            other = {"older": kept.older, "replica": kept.replica}.get(way)
            if other is None:
                way = _apply(path, way, draw, kept)
            elif (other / name).is_file():
                _overwrite(path, (other / name).read_bytes())
            else:
                continue  # it is newer as a whole, or the other one has none
            done.append(Harm(str(name), way))
    return done


def _choose(root: Path, draw: random.Random) -> Path | None:
    """
    A file, of several also the oldest and the newest one.
    """
    path = root / draw.choice(PLACES)
    if path.is_dir():
        files = sorted(one for one in path.rglob("*") if one.is_file())
        path = draw.choice((files[0], files[-1], draw.choice(files))) if files else path
    return path if path.is_file() and path.stat().st_size else None


def _apply(path: Path, way: str, draw: random.Random, kept: Kept) -> str:
    """
    Returns the way that was taken.
    """
    if way == "remove":
        path.unlink()
        return way
    content = bytearray(path.read_bytes())
    if way == "shorten":
        _overwrite(path, content[: draw.randrange(len(content))])
        return way
    field = _field(path, draw, kept) if way == "field" else None
    if way == "page":
        at = draw.randrange(len(content)) // SECTOR * SECTOR
        content[at : at + SECTOR] = bytes(len(content[at : at + SECTOR]))
    elif field is not None:
        content[draw.randrange(*field)] ^= 1 << draw.randrange(8)
        way = f"bit of the field at {field[0]}"
    else:
        content[_written(content, draw)] ^= 1 << draw.randrange(8)
        way = "bit"
    _overwrite(path, content)
    return way


def _written(content: bytearray, draw: random.Random) -> int:
    """
    The place of a byte, which is not zero if the draw finds one.
    """
    tried = (draw.randrange(len(content)) for _ in range(200))
    return next((at for at in tried if content[at]), len(content) // 2)


def _field(path: Path, draw: random.Random, kept: Kept) -> tuple[int, int] | None:
    """
    Where a field of a record is in a segment.
    """
    if path.parent.name != COMMIT_LOG:
        return None
    base, size = int(path.name), path.stat().st_size
    inside = [one for one in kept.records if base <= one < base + size]
    if not inside:
        return None
    offset = draw.choice(inside)
    record = kept.records[offset]
    (flags,) = struct.unpack_from(">i", record, 36)
    body_size_at = 84 + 12 * sum(bool(flags & flag) for flag in HOST_OF_16_BYTES)
    (body,) = struct.unpack_from(">i", record, body_size_at)
    topic = body_size_at + 4 + body
    low, high = draw.choice((*FIELDS, (topic, topic + 1), (topic + 1, len(record))))
    start = offset - base
    if high <= low or start + high > size:
        return None
    return start + low, start + high


def _overwrite(path: Path, content: bytes | bytearray) -> None:
    """
    Writes without making the file empty in between.
    """
    with path.open("r+b") as file:
        file.write(content)
        file.truncate()
