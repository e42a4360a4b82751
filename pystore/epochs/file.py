"""
RocketMQ's epoch file: text to table and back. Pure.

Line 1 is the number of entries, line 2 the CRC-32 of the entry lines without
its highest bit (0: do not check), then one ``epoch-start`` a line. Java keeps
the previous content in ``.bak`` and reads it when the file fails its count or
its CRC, has no entry, or is missing; it stops at text that is not a number.

For pystore an unreadable file is an error, never an empty table (RMQ-R16, RMQ-R142):
without a ``.bak`` Java continues with no entries.

Layout: docs/format.md, epoch file (RocketMQ 5.3: ``CheckpointFile``).
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

from pystore.epochs.table import EpochTable
from pystore.errors import FormatError, InvalidError
from pystore.fs.layout import EPOCH_FILE

__all__ = ["JAVA_EPOCH_MAX", "EpochFile", "encode_epochs", "read_epochs"]


JAVA_EPOCH_MAX = 2**31 - 1
"""The highest epoch that Java reads."""

_LINE_END = re.compile(r"\r\n|\n|\r")
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1
_CRC_MASK = 0x7FFFFFFF
_ADVICE = (
    "restore it from a replica's copy, or remove it and its .bak "
    "to keep the table that meta/ has"
)


@dataclass(frozen=True, slots=True)
class EpochFile:
    """
    The table, and whether it was read from the ``.bak`` file.
    """

    table: EpochTable
    is_backup: bool


class _Mismatch(Exception):
    """
    The file is inconsistent; Java then reads the ``.bak`` file.
    """


def encode_epochs(table: EpochTable) -> bytes:
    """
    The epoch file of ``table``, with a line feed after every line.

    An empty table is written as well (RMQ-R142). Java reads it as empty if there is no
    ``.bak``.
    """
    lines = "".join(f"{epoch}-{start}\n" for epoch, start in table.pairs())
    crc = zlib.crc32(lines.encode()) & _CRC_MASK
    return f"{len(table)}\n{crc}\n{lines}".encode()


def read_epochs(
    content: bytes | None, backup: bytes | None, path: str = EPOCH_FILE
) -> EpochFile | None:
    """
    Read the epoch file, or its ``.bak`` where Java would.

    Args:
        content: of the file, ``None`` if there is none.
        backup: of the ``.bak`` file, ``None`` if there is none.
        path: of the file, for messages.

    Returns:
        The table, or ``None`` if neither file exists.

    Raises:
        FormatError: the files cannot be read.
    """
    if content is None and backup is None:
        return None
    reason = "missing"
    table = None
    if content is not None:
        try:
            table = _parse(content, path)
        except _Mismatch as mismatch:
            # Java's rule: the previous content counts.
            reason = str(mismatch)
    if table is not None and (table.entries or backup is None):
        return EpochFile(table, is_backup=False)
    if backup is None:
        raise FormatError(f"{path}: {reason}, and no .bak: {_ADVICE}", path=path)
    if table is not None:
        reason = "lists no entry"
    try:
        return EpochFile(_parse(backup, path + ".bak"), is_backup=True)
    except _Mismatch as mismatch:
        # Both files are inconsistent, and an empty table would be a guess.
        raise FormatError(
            f"{path}: {reason}, and its .bak: {mismatch}: {_ADVICE}", path=path
        ) from None


def _number(text: str, lowest: int, highest: int, path: str, line: int) -> int:
    if _INTEGER.fullmatch(text) and lowest <= int(text) <= highest:
        return int(text)
    raise FormatError(
        f"{path}: line {line}: {text[:40]!r} is not a number: {_ADVICE}", path=path
    )


def _parse(content: bytes, path: str) -> EpochTable:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        # Java's reader fails here and reads the .bak file.
        raise _Mismatch(f"byte {error.start} is not UTF-8") from None
    lines = _LINE_END.split(text)
    if not lines[-1]:
        lines.pop()
    lines += [""] * (2 - len(lines))
    count = _number(lines[0], _INT_MIN, _INT_MAX, path, 1)
    crc = _number(lines[1], _INT_MIN, _INT_MAX, path, 2)
    entries = [_pair(line, path, at) for at, line in enumerate(lines[2:], 3)]
    if None in entries:
        raise _Mismatch(f"line {entries.index(None) + 3} is not epoch-start")
    if len(entries) != count:
        raise _Mismatch(f"{len(entries)} entries, but line 1 has {count}")
    found = zlib.crc32("".join(f"{line}\n" for line in lines[2:]).encode()) & _CRC_MASK
    if crc not in (0, found):
        raise _Mismatch(f"CRC-32 {found}, but line 2 has {crc}")
    try:
        return EpochTable.of(pair for pair in entries if pair is not None)
    except InvalidError as error:
        # Java never writes such a table.
        raise _Mismatch(str(error)) from None


def _pair(line: str, path: str, at: int) -> tuple[int, int] | None:
    """
    The numbers of a line; ``None`` if Java skips the line, so that the count differs.
    """
    parts = line.rstrip("-").split("-")
    if len(parts) != 2:
        return None
    epoch, start = (_number(part, 0, 2**63 - 1, path, at) for part in parts)
    return epoch, start
