"""
The protocol pages describe the bytes that are sent.
"""

from __future__ import annotations

import inspect
import re
from enum import IntEnum, IntFlag
from pathlib import Path
from typing import Any

import pytest
from lib.ha.wire_frames import EXAMPLES
from lib.state_diagrams import IDENTITY_PAGE, PAGE, drawn

from pystore.ha.wire import codes
from pystore.ha.wire.codes import HEADER_BYTES
from pystore.ha.wire.legacy import (
    LegacyAck,
    LegacyData,
    LegacyEpochs,
    LegacyHandshake,
    encode_legacy,
)

ROOT = Path(__file__).parents[2]
PROTOCOL = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (\d+) \| ([iu]\d+) \| `(\w+)` \|", re.M)
LEGACY = [
    ("Handshake", LegacyHandshake(7, is_from_last_file=True)),
    ("Ack", LegacyAck(158)),
    ("Answer", LegacyEpochs(2844, 4, ((1, 0), (4, 2370)))),
    ("Transfer", LegacyData(1580, 2, 1579, 2843, b"abc")),
]


def _read(table: str, raw: bytes) -> list[tuple[str, int]]:
    """
    Returns the numbers of a frame at the positions of the table.
    """
    found = []
    for at, kind, field in ROW.findall(table):
        part = raw[int(at) : int(at) + int(kind[1:]) // 8]
        found.append((field, int.from_bytes(part, "big", signed=kind[0] == "i")))
    assert found
    return found


def _table_after(heading: str) -> str:
    return PROTOCOL.split(heading)[1].split("\n\n")[1]


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_number_of_a_frame_is_at_the_position_of_the_page(name: str) -> None:
    """
    Place, width and sign, by the name of the field; and no field is left out.
    """
    frame, raw = EXAMPLES[name]
    kind = codes.FrameType(int.from_bytes(raw[4:8], "big"))
    heading = re.search(rf"^### 1\.\d+ {kind.name}$", PROTOCOL, re.M)
    assert heading
    table = _table_after(heading[0])
    body: Any = frame.body

    assert [] == [
        (field, value)
        for field, value in _read(table, raw[HEADER_BYTES:])
        if getattr(body, field) != value
    ]
    assert list(inspect.signature(type(body)).parameters) == re.findall(
        r"\| `(\w+)` \|", table
    )


@pytest.mark.parametrize(("name", "frame"), LEGACY)
def test_each_number_of_a_legacy_frame_is_at_the_position_of_the_page(
    name: str, frame: Any
) -> None:
    """
    The same for frames that have no type.
    """
    paragraph = re.search(rf"^{name}\b.*$", PROTOCOL.split("## 2 Legacy")[1], re.M)
    assert paragraph
    table = _table_after(paragraph[0])

    assert [] == [
        (field, value)
        for field, value in _read(table, encode_legacy(frame))
        if getattr(frame, field) != value
    ]
    assert set(frame.__slots__) == set(re.findall(r"\| `(\w+)` \|", table))


@pytest.mark.parametrize(
    "kind",
    [codes.CheckResult, codes.TruncateOutcome, codes.AckStatus],
    ids=lambda kind: kind.__name__,
)
def test_the_numbers_of_the_page_are_those_of_the_source(kind: type[IntEnum]) -> None:
    """
    The names are equal, too.
    """
    table = f"| {kind.__name__} |" + PROTOCOL.split(f"| {kind.__name__} |")[1]
    rows = re.findall(r"^\| (-?\d+) \| ([A-Z_]+) \|", table.split("\n\n")[0], re.M)

    assert [(str(one.value), one.name) for one in kind] == rows


def test_the_types_of_the_page_are_those_of_the_source() -> None:
    """
    The names are equal, too.
    """
    table = _table_after("### 1.2 Types")
    rows = re.findall(r"^\| (\d+) \| ([A-Z_]+) \|", table, re.M)

    assert [(str(one.value), one.name) for one in codes.FrameType] == rows


def test_the_flags_of_the_page_are_those_of_the_source() -> None:
    """
    Each kind of flag has the same bits.
    """
    rows = re.findall(r"^\| (\w+Flag) \| (\d) \| ([A-Z_]+) \|", PROTOCOL, re.M)
    kinds = [
        kind
        for kind in vars(codes).values()
        if isinstance(kind, type) and issubclass(kind, IntFlag) and kind != IntFlag
    ]

    assert rows == [
        (kind.__name__, str(one.bit_length() - 1), one.name)
        for name in dict.fromkeys(row[0] for row in rows)
        for kind in kinds
        if kind.__name__ == name
        for one in kind
    ]
    assert {kind.__name__ for kind in kinds} == {row[0] for row in rows}


def test_the_diagrams_are_drawn_from_the_tables() -> None:
    """
    Draw them anew: python tests/lib/state_diagrams.py.
    """
    text = PAGE.read_text(encoding="utf-8")

    assert drawn(text) == text
    assert 3 == text.count("```mermaid")
    text = IDENTITY_PAGE.read_text(encoding="utf-8")
    assert drawn(text, IDENTITY_PAGE) == text
    assert 1 == text.count("```mermaid")
