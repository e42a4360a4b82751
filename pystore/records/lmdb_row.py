"""
The stored form of a record in LMDB: XXH3-64 of the rest, version, holder, value. Pure.

The checksum covers the key, too, so the row of another record is detected.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import xxhash

from pystore.errors import FormatError

__all__ = ["NO_HOLDER", "Row"]

NO_HOLDER = 0
"""The holder of a record that was put."""

_PROOF_BYTES = 8
_HEAD = struct.Struct(">QQ")
_VALUE_AT = _PROOF_BYTES + _HEAD.size


@dataclass(frozen=True, slots=True)
class Row:
    """
    A stored record.

    Attributes:
        version: of the transaction that wrote it.
        holder: the number of its owner, or `NO_HOLDER`.
        value: as committed.
    """

    version: int
    holder: int
    value: bytes

    def encode(self, key: bytes) -> bytes:
        """
        Returns the stored form for a key.
        """
        content = _HEAD.pack(self.version, self.holder) + self.value
        return xxhash.xxh3_64_digest(key + content) + content

    @classmethod
    def salvage(cls, stored: bytes) -> Row:
        """
        Returns what a damaged stored form seems to hold.
        """
        content = stored[_PROOF_BYTES:].ljust(_HEAD.size, b"\0")
        version, holder = _HEAD.unpack_from(content)
        return cls(version, holder, content[_HEAD.size :])

    @classmethod
    def decode(cls, key: bytes, stored: bytes, path: str) -> Row:
        """
        Decodes a stored form.

        Raises:
            FormatError: the checksum does not match.
        """
        content = stored[_PROOF_BYTES:]
        proof = xxhash.xxh3_64_digest(key + content)
        if len(stored) < _VALUE_AT or stored[:_PROOF_BYTES] != proof:
            raise FormatError(
                f"{path}: the record {key.decode(errors='replace')!r} is damaged: "
                "restore the record store from a backup",
                path=path,
            )
        version, holder = _HEAD.unpack_from(content)
        return cls(version, holder, content[_HEAD.size :])
