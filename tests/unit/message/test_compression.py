"""
Compressed bodies become plain, or say why not.
"""

from __future__ import annotations

import importlib
import sys
import zlib
from types import ModuleType

import pytest

from pystore.errors import CorruptError, FormatError
from pystore.message.compression import decompress

PLAIN = b"a body, a body, a body" * 10
LZ4, ZSTD, ZLIB = 0x101, 0x201, 0x301


def _optional(name: str) -> ModuleType:
    pytest.importorskip(name, reason="comes with the compression extra")
    return importlib.import_module(name)


def test_a_plain_body_is_returned_as_it_is() -> None:
    """
    Without the compressed bit the type bits have no effect.
    """
    assert PLAIN is decompress(PLAIN, 0x700)


@pytest.mark.parametrize("sys_flag", [1, ZLIB], ids=["legacy", "zlib"])
def test_zlib_bodies_need_no_library(sys_flag: int) -> None:
    """
    Both type numbers of zlib are understood.
    """
    assert PLAIN == decompress(zlib.compress(PLAIN), sys_flag)


def test_lz4_and_zstandard_bodies_are_decompressed() -> None:
    """
    With the compression extra every type of RocketMQ is understood.
    """
    lz4, zstandard = _optional("lz4.frame"), _optional("zstandard")

    assert PLAIN == decompress(lz4.compress(PLAIN), LZ4)
    assert PLAIN == decompress(zstandard.ZstdCompressor().compress(PLAIN), ZSTD)


@pytest.mark.parametrize("sys_flag", [1, LZ4, ZSTD, ZLIB])
@pytest.mark.parametrize("body", [b"", b"no such thing"])
def test_a_body_without_the_compression_of_its_flag_is_corrupt(
    sys_flag: int, body: bytes
) -> None:
    """
    The line names the compression.
    """
    if sys_flag in (LZ4, ZSTD):
        _optional("lz4.frame")
        _optional("zstandard")

    with pytest.raises(CorruptError, match=r"body is not valid (zlib|LZ4|Zstandard)"):
        decompress(body, sys_flag)


def test_a_zstandard_body_cut_short_is_corrupt() -> None:
    """
    An incomplete body is corrupt.
    """
    whole = _optional("zstandard").ZstdCompressor().compress(PLAIN)

    with pytest.raises(CorruptError, match="it ends early"):
        decompress(whole[:-3], ZSTD)


@pytest.mark.parametrize(("sys_flag", "name"), [(LZ4, "lz4"), (ZSTD, "zstandard")])
def test_a_missing_library_is_named_with_the_way_to_get_it(
    sys_flag: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The error names the package to install.
    """
    for module in (name, f"{name}.frame"):
        monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(FormatError, match=rf"{name} is not installed: pip install"):
        decompress(PLAIN, sys_flag)


def test_an_unknown_compression_is_named_by_its_number() -> None:
    """
    An unknown type is refused.
    """
    with pytest.raises(FormatError, match="type 5"):
        decompress(PLAIN, 0x501)
