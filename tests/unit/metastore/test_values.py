"""
The values that a store keeps about itself.
"""

from __future__ import annotations

import pytest

from pystore.errors import FormatError, InvalidError
from pystore.metastore.values import NO_FORMAT, Bounds, Exports, StoreFormat, digest_of


def test_a_format_of_today_is_read() -> None:
    """Unknown compatible features do not stop a reader."""
    StoreFormat(compatible=0xFFFF).refuse_unknown("/s/meta/lmdb")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (StoreFormat(version=2), "format version 2 with unknown features 0x0"),
        (StoreFormat(incompatible=0x14), "format version 1 with unknown features 0x14"),
        (NO_FORMAT, "no format record, so pystore did not write it"),
    ],
)
def test_a_format_of_another_day_is_refused_by_name(
    written: StoreFormat, message: str
) -> None:
    """The error names the unknown features and the remedy."""
    with pytest.raises(FormatError, match=f"^/s/meta/lmdb: {message}") as caught:
        written.refuse_unknown("/s/meta/lmdb")
    print(caught.value)


def test_bounds_are_not_negative() -> None:
    """A negative offset is an error of the caller."""
    with pytest.raises(InvalidError, match="negative"):
        Bounds(synced_end=-1)


def test_a_file_that_we_never_exported_must_be_absent() -> None:
    """A7: a name without digests is ours only if there is no file."""
    assert Exports().is_ours("checkpoint", None)
    assert not Exports().is_ours("checkpoint", b"")


def test_an_export_is_ours_before_and_after_it_is_written() -> None:
    """After a crash before the write of the file, both contents are pystore's."""
    exports = Exports().intend("e", b"one").settle("e")
    exports = exports.intend("e", b"two").intend("e", b"three")
    for content in (b"one", b"two", b"three"):
        assert exports.is_ours("e", content)
    assert not exports.is_ours("e", None)
    assert not exports.is_ours("e", b"four")
    assert exports.is_current("e", b"three")
    assert not exports.is_current("e", b"two")


def test_a_settled_export_is_ours_only_as_intended_last() -> None:
    """Content that Java wrote is detected, also an older one."""
    exports = Exports().intend("e", b"one").settle("e").intend("e", b"two").settle("e")
    assert exports.is_ours("e", b"two")
    assert not exports.is_ours("e", b"one")
    assert not exports.is_ours("e", None)


def test_a_removed_export_must_be_gone() -> None:
    """Intended to be absent, and settled."""
    exports = Exports().intend("e", b"one").settle("e").intend("e", None).settle("e")
    assert exports.is_ours("e", None)
    assert not exports.is_ours("e", b"one")


def test_intending_the_same_again_adds_nothing() -> None:
    """The digests do not grow with every attempt."""
    exports = Exports()
    for _ in range(5):
        exports = exports.intend("e", b"one").intend("e", b"two")
    assert (b"", digest_of(b"one"), digest_of(b"two")) == exports.digests["e"]
