"""
Decompression of bodies that a client compressed.

The log stores a body as received; the sys flag names its compression. zlib
is part of Python, LZ4 and Zstandard come with the ``compression`` extra.

Source: docs/format.md, sys flag (formats 1.5).
"""

from __future__ import annotations

import importlib
import zlib
from types import ModuleType

from pystore.errors import CorruptError, FormatError
from pystore.message.constants import COMPRESSED

__all__ = ["decompress"]

_KIND_SHIFT = 8
_KIND_MASK = 0x7
_ZLIB = (0, 3)  # clients wrote 0 before other compressions existed
_LZ4 = 1
_ZSTD = 2


def decompress(body: bytes, sys_flag: int) -> bytes:
    """
    Returns the decompressed body.

    Args:
        body: as stored.
        sys_flag: of the same record; without the compressed bit the body is
            returned as it is.

    Raises:
        CorruptError: the bytes do not have the compression of the sys flag.
        FormatError: an unknown compression, or its library is not installed.
    """
    if not sys_flag & COMPRESSED:
        return body
    kind = sys_flag >> _KIND_SHIFT & _KIND_MASK
    if kind in _ZLIB:
        return _inflate(body)
    if kind == _LZ4:
        return _lz4(body)
    if kind == _ZSTD:
        return _zstd(body)
    raise FormatError(f"body with unknown compression: type {kind} in the sys flag")


def _inflate(body: bytes) -> bytes:
    try:
        return zlib.decompress(body)
    except zlib.error as error:  # damaged, or the flag is wrong
        raise _damaged("zlib", error) from error


def _lz4(body: bytes) -> bytes:
    frame = _library("lz4.frame")
    try:
        plain: bytes = frame.decompress(body)
    except (RuntimeError, EOFError) as error:  # the library's errors
        raise _damaged("LZ4", error) from error
    return plain


def _zstd(body: bytes) -> bytes:
    zstandard = _library("zstandard")
    stream = zstandard.ZstdDecompressor().decompressobj()
    try:
        plain: bytes = stream.decompress(body)
    except zstandard.ZstdError as error:
        raise _damaged("Zstandard", error) from error
    if not stream.eof:
        raise _damaged("Zstandard", "it ends early")
    return plain


def _damaged(name: str, why: object) -> CorruptError:
    return CorruptError(f"body is not valid {name}, which its sys flag names: {why}")


def _library(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise FormatError(
            f"body is compressed and {package} is not installed: "
            "pip install 'pystore-commitlog[compression]'"
        ) from error
