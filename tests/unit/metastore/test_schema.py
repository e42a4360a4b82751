"""
The stored form of each record, and the error of a damaged one.
"""

from __future__ import annotations

from typing import Any

import pytest
import xxhash

from pystore.epochs.table import EpochTable
from pystore.errors import FormatError
from pystore.fs.boot import StorePlace
from pystore.metastore.mark_table import TableHead
from pystore.metastore.schema import (
    BOUNDS,
    CLEAN,
    CUT,
    EPOCHS,
    EXPORTS,
    FINGERPRINT,
    FORMAT,
    HEADS,
    IDENTITY,
    INCARNATION,
    PLACE,
    POSITIONS,
    PROMISED,
    MetaKey,
)
from pystore.metastore.values import (
    Bounds,
    CleanMark,
    CutState,
    Exports,
    QueueMark,
    StoreFingerprint,
    StoreFormat,
)
from pystore.replicaset import Incarnation
from pystore.rocketmq.identity_file import BrokerIdentity, TemporaryIdentity

IDENTIFIED = BrokerIdentity("集群", "broker-a", 2**63 - 1)
MARKS = (QueueMark("a", 0, 5), QueueMark("a", 3, 2**62), QueueMark("b c", 1, 0))
EXAMPLES: list[tuple[MetaKey[Any], Any]] = [
    (FORMAT, StoreFormat(1, 0, 7)),
    (INCARNATION, Incarnation(3, bytes(range(16)))),
    (PLACE, StorePlace(64769, 2**63 + 5)),
    (IDENTITY, None),
    (IDENTITY, IDENTIFIED),
    (IDENTITY, TemporaryIdentity(IDENTIFIED, "127.0.0.1:10911;1700000000000")),
    (PROMISED, 2**62),
    (EPOCHS, EpochTable()),
    (EPOCHS, EpochTable.of([(1, 0), (2**40, 2**50)])),
    (BOUNDS, Bounds(4096, 4000, "boot", "mount")),
    (HEADS[POSITIONS], TableHead(77, 3, 2**64 - 1)),
    (CUT, CutState(3, None)),
    (CUT, CutState(4, 0)),
    (EXPORTS, Exports().intend("x", b"1").intend("x", None)),
    (CLEAN, None),
    (CLEAN, CleanMark(500, 400, b"\x00\xff")),
    (FINGERPRINT, StoreFingerprint(((0, 1024), (1024, 1024)))),
    (FINGERPRINT, StoreFingerprint(((0, 9), (9, 9), (20, 9), (29, 8), (37, 8)))),
    (FINGERPRINT, StoreFingerprint()),
]


def _label(value: object) -> str:
    return value.name if isinstance(value, MetaKey) else repr(value)


@pytest.mark.parametrize(("kind", "value"), EXAMPLES, ids=_label)
def test_every_record_reads_back_equal(kind: MetaKey[Any], value: Any) -> None:
    """The stored value reads back."""
    stored = kind.encode(value)
    assert value == kind.decode(stored, "db")
    assert stored == kind.encode(kind.decode(stored, "db"))


@pytest.mark.parametrize(
    "kind", {kind.name: kind for kind, _ in EXAMPLES}.values(), ids=_label
)
def test_a_record_that_was_never_stored_has_a_default(kind: MetaKey[Any]) -> None:
    """A missing record is its default, which can be stored too."""
    assert kind.default == kind.decode(None, "db")
    assert kind.default == kind.decode(kind.encode(kind.default), "db")


@pytest.mark.parametrize(("kind", "value"), EXAMPLES, ids=_label)
def test_a_flip_of_any_bit_is_seen(kind: MetaKey[Any], value: Any) -> None:
    """A damaged record is an error."""
    stored = kind.encode(value)
    for bit in range(8 * len(stored)):
        damaged = bytearray(stored)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FormatError, match=f"^db: the record '{kind.name}' is"):
            kind.decode(bytes(damaged), "db")
    with pytest.raises(FormatError, match="is damaged: restore meta/"):
        kind.decode(b"", "db")


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (BOUNDS, b"[1]"),
        (BOUNDS, b"[-1,0,null,null]"),
        (EPOCHS, b"[[2,0],[1,5]]"),
        (FINGERPRINT, b"[]"),
        (HEADS[POSITIONS], b'[0,{"t":[[1],[]]}]'),
        (HEADS[POSITIONS], b"[0,1]"),
        (PROMISED, b"null"),
        (IDENTITY, b'["a#b","c",1]'),
        (EXPORTS, b"3"),
    ],
)
def test_a_whole_record_of_another_form_is_refused(
    kind: MetaKey[Any], content: bytes
) -> None:
    """One line that names the record, never a bare Python error."""
    stored = xxhash.xxh3_64_digest(content) + content
    with pytest.raises(FormatError, match="has an unknown form") as caught:
        kind.decode(stored, "db")
    print(caught.value)
    assert "\n" not in str(caught.value)
