"""
Seals: the digests of a full segment, by which any host can check it.

A seal is written once, when its segment is full, as
``meta/seals/<20-digit base offset>.seal``. Replicas hold equal segments, so
their seals are equal, byte for byte: a seal holds nothing of the broker that
wrote it. The chain value covers all sealed segments of a group up to here.

Digests: XXH3-64 for each block of 4 MiB, XXH3-128 for the segment, for the chain
and for the seal itself. Layout: docs/format.md, seal record.
"""

from __future__ import annotations

import itertools
import os
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import xxhash

from pystore.epochs.table import EpochRange, EpochTable
from pystore.errors import FormatError, InvalidError
from pystore.fs.atomic import SYSTEM, Calls, replace_file, storage_error
from pystore.fs.layout import segment_name
from pystore.fs.regular_file import read_regular

__all__ = [
    "BLOCK_BYTES",
    "NO_CHAIN",
    "Seal",
    "block_digest",
    "list_seals",
    "make_seal",
    "parse_seal",
    "read_seal",
    "seal_name",
    "verify_seal",
    "write_seal",
]

BLOCK_BYTES = 4 << 20

NO_CHAIN = bytes(16)
"""The chain value before the first sealed segment of a group."""

_MAGIC = b"PSSEAL\x00\x01"
_HEAD = struct.Struct(">8sQQQqqIIIH")
_RANGE = struct.Struct(">QQQ")
_DIGEST_BYTES = 16
_NAME = re.compile(r"([0-9]{20})\.seal")
_ADVICE = "remove it and seal the segment again, or take it from a replica"

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Seal:
    """
    One sealed segment.

    Attributes:
        group: the replica group, a broker name.
        start_offset: the segment's base offset.
        length_bytes: of the segment's file.
        record_count: how many records it holds, blank ones not counted.
        first_store_ms: store time of the first record, 0 without records.
        last_store_ms: store time of the last record, 0 without records.
        epochs: the epochs that wrote the bytes, ascending.
        block_bytes: size of the blocks; the last one may be shorter.
        block_digests: XXH3-64 of each block.
        digest: XXH3-128 of the whole segment, 16 bytes.
        chain: XXH3-128 of the previous chain value and ``digest``, 16 bytes.
    """

    group: str
    start_offset: int
    length_bytes: int
    record_count: int
    first_store_ms: int
    last_store_ms: int
    epochs: tuple[EpochRange, ...]
    block_bytes: int
    block_digests: tuple[int, ...]
    digest: bytes
    chain: bytes

    @property
    def end_offset(self) -> int:
        """
        Where the next segment begins.
        """
        return self.start_offset + self.length_bytes

    def block_range(self, index: int) -> tuple[int, int]:
        """
        The log offsets ``[start, end)`` of a block.
        """
        start = self.start_offset + index * self.block_bytes
        return start, min(start + self.block_bytes, self.end_offset)

    def follows(self, previous_chain: bytes) -> bool:
        """
        Whether the chain value before this seal is *previous_chain*.
        """
        return self.chain == _chain(previous_chain, self.digest)

    def encode(self) -> bytes:
        """
        The file's content.
        """
        group = self.group.encode()
        head = _HEAD.pack(
            _MAGIC,
            self.start_offset,
            self.length_bytes,
            self.record_count,
            self.first_store_ms,
            self.last_store_ms,
            self.block_bytes,
            len(self.block_digests),
            len(self.epochs),
            len(group),
        )
        ranges = [
            _RANGE.pack(one.epoch, one.start_offset, one.end_offset)
            for one in self.epochs
        ]
        blocks = struct.pack(f">{len(self.block_digests)}Q", *self.block_digests)
        content = b"".join([head, group, *ranges, blocks, self.digest, self.chain])
        return content + xxhash.xxh3_128_digest(content)


def seal_name(base_offset: int) -> str:
    """
    The file name of a segment's seal.
    """
    return f"{segment_name(base_offset)}.seal"


def parse_seal(content: bytes, path: str = "seal") -> Seal:
    """
    Read a seal record.

    Args:
        content: the whole file.
        path: of the file, for messages.

    Raises:
        FormatError: its digest is wrong, or its version is unknown.
    """
    if content[: len(_MAGIC)] != _MAGIC:
        raise FormatError(
            f"{path}: {content[:8]!r} is not the beginning of a seal: {_ADVICE}",
            path=path,
        )
    body, proof = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if xxhash.xxh3_128_digest(body) != proof or len(body) < _HEAD.size:
        raise FormatError(
            f"{path}: its {len(content)} bytes do not match the digest at its "
            f"end: {_ADVICE}",
            path=path,
        )
    _, start, length, records, first, last, block, blocks, ranges, name = (
        _HEAD.unpack_from(body)
    )
    group_end = _HEAD.size + name
    ranges_end = group_end + ranges * _RANGE.size
    blocks_end = ranges_end + 8 * blocks
    if blocks_end + 2 * _DIGEST_BYTES != len(body) or not block:
        raise FormatError(f"{path}: its lengths contradict each other", path=path)
    try:
        group = body[_HEAD.size : group_end].decode()
    except UnicodeDecodeError as error:
        # The digest is right, so the writer has a defect.
        raise FormatError(f"{path}: its group is not UTF-8", path=path) from error
    return Seal(
        group=group,
        start_offset=start,
        length_bytes=length,
        record_count=records,
        first_store_ms=first,
        last_store_ms=last,
        epochs=tuple(
            EpochRange(*one) for one in _RANGE.iter_unpack(body[group_end:ranges_end])
        ),
        block_bytes=block,
        block_digests=struct.unpack(f">{blocks}Q", body[ranges_end:blocks_end]),
        digest=body[blocks_end : blocks_end + _DIGEST_BYTES],
        chain=body[blocks_end + _DIGEST_BYTES :],
    )


def _chain(previous: bytes, digest: bytes) -> bytes:
    return xxhash.xxh3_128_digest(previous + digest)


def _blocks(buffers: Iterable[Buffer], block_bytes: int) -> Iterator[list[memoryview]]:
    """
    The pieces of each block, without copying; buffers may have any size.
    """
    pieces: list[memoryview] = []
    room = block_bytes
    for buffer in buffers:
        rest = memoryview(buffer).cast("B")
        while rest:
            pieces.append(rest[:room])
            rest = rest[room:]
            room -= len(pieces[-1])
            if not room:
                yield pieces
                pieces, room = [], block_bytes
    if pieces:
        yield pieces


def _digests(
    buffers: Iterable[Buffer], block_bytes: int
) -> tuple[int, tuple[int, ...], bytes]:
    """
    The length, the digest of each block, and the digest of all.
    """
    length, whole = 0, xxhash.xxh3_128()
    blocks: list[int] = []
    for pieces in _blocks(buffers, block_bytes):
        block = xxhash.xxh3_64()
        for piece in pieces:
            block.update(piece)
            whole.update(piece)
            length += len(piece)
        blocks.append(block.intdigest())
    return length, tuple(blocks), whole.digest()


def make_seal(
    buffers: Iterable[Buffer],
    *,
    group: str,
    start_offset: int,
    record_count: int,
    first_store_ms: int,
    last_store_ms: int,
    epochs: EpochTable,
    previous_chain: bytes = NO_CHAIN,
) -> Seal:
    """
    Seal a segment; every byte is read once and none is copied.

    Args:
        buffers: the segment's bytes from its first to its last, in pieces of any
            size. For a `memoryview` pass ``[view]``.
        group: the replica group.
        start_offset: the segment's base offset.
        record_count: from the scan of the segment.
        first_store_ms: from the scan.
        last_store_ms: from the scan.
        epochs: the log's epoch table.
        previous_chain: `Seal.chain` of the segment before, `NO_CHAIN` for the
            group's first.

    Raises:
        InvalidError: no bytes, a chain value of a wrong size, or a group name that
            is too long.
    """
    if len(previous_chain) != _DIGEST_BYTES:
        raise InvalidError(f"a chain value has {_DIGEST_BYTES} bytes")
    if not 0 < len(group.encode()) < 2**16:
        raise InvalidError("a group name has 1 to 65535 bytes")
    length, blocks, digest = _digests(buffers, BLOCK_BYTES)
    if not length:
        raise InvalidError(
            f"the segment at {start_offset} has no bytes to seal", offset=start_offset
        )
    return Seal(
        group=group,
        start_offset=start_offset,
        length_bytes=length,
        record_count=record_count,
        first_store_ms=first_store_ms,
        last_store_ms=last_store_ms,
        epochs=epochs.ranges(start_offset, start_offset + length),
        block_bytes=BLOCK_BYTES,
        block_digests=blocks,
        digest=digest,
        chain=_chain(previous_chain, digest),
    )


def verify_seal(seal: Seal, buffers: Iterable[Buffer]) -> list[int]:
    """
    The blocks of a segment that differ from the seal.

    A missing block differs, and so does a block too many. If every block agrees but
    the digest of the whole segment does not, all blocks are returned.

    Args:
        seal: of the segment.
        buffers: its bytes from the first to the last, in pieces of any size.

    Returns:
        Block indexes, ascending; empty if the segment agrees with the seal.
    """
    _, blocks, digest = _digests(buffers, seal.block_bytes)
    pairs = itertools.zip_longest(seal.block_digests, blocks)
    bad = [index for index, (sealed, found) in enumerate(pairs) if sealed != found]
    if not bad and digest != seal.digest:
        return list(range(len(blocks)))
    return bad


def block_digest(buffers: Iterable[Buffer]) -> int:
    """
    The digest of one block, as in `Seal.block_digests`.
    """
    digest = xxhash.xxh3_64()
    for buffer in buffers:
        digest.update(buffer)
    return digest.intdigest()


def write_seal(
    directory: Path, seal: Seal, temporary: Path, calls: Calls = SYSTEM
) -> Path:
    """
    Put a seal into its directory, durably, whole or not at all.

    Args:
        directory: ``meta/seals``.
        seal: the record.
        temporary: ``meta/tmp``.
        calls: the system calls.

    Returns:
        The file's path.

    Raises:
        FullError: no space.
        StorageError: the system refused.
    """
    path = directory / seal_name(seal.start_offset)
    replace_file(path, seal.encode(), temporary, calls)
    return path


def read_seal(directory: Path, base_offset: int) -> Seal | None:
    """
    The seal of a segment, ``None`` if it has none.

    Raises:
        FormatError: the file is damaged, or of another segment.
        StorageError: the system refused.
    """
    path = directory / seal_name(base_offset)
    try:
        content = read_regular(path)
    except FileNotFoundError:
        # The segment has no seal.
        return None
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("read", path, error) from error
    seal = parse_seal(content, str(path))
    if seal.start_offset != base_offset:
        raise FormatError(
            f"{path}: it seals the segment at {seal.start_offset}: {_ADVICE}",
            offset=base_offset,
            path=str(path),
        )
    return seal


def list_seals(directory: Path) -> list[int]:
    """
    The base offsets of the segments that have a seal, ascending.

    Raises:
        FormatError: a file has a name that no seal has.
        StorageError: the system refused.
    """
    try:
        names = sorted(os.listdir(directory))
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("list", directory, error) from error
    offsets = []
    for name in names:
        match = _NAME.fullmatch(name)
        if match is None:
            raise FormatError(
                f"{directory / name}: no seal has this name: move it away",
                path=str(directory / name),
            )
        offsets.append(int(match[1]))
    return offsets
