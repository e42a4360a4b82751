"""
Records with a text in their bytes: never one too few.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from lib.spark.reading import read
from lib.store.logs import make_root, open_log
from numpy.typing import NDArray

from pystore.bindings.row import RECORD_DTYPE
from pystore.message.message import Message
from pystore.spark.plan.selection import Selection
from pystore.spark.scan import task
from pystore.spark.scan.python_segment import PythonSegment
from pystore.spark.scan.text_filter import rows_with


def _rows(sizes: list[tuple[int, int]]) -> NDArray[np.void]:
    """
    Adjacent rows of these body and properties sizes.
    """
    rows = np.zeros(len(sizes), RECORD_DTYPE)
    rows["size"] = [body + properties for body, properties in sizes]
    rows["properties_at"] = [body for body, _ in sizes]
    rows["offset"] = 1000 + np.cumsum(rows["size"]) - rows["size"]
    return rows


def test_no_row_with_the_text_is_left_out() -> None:
    """
    Matches overlap, and bodies contain the text, too.
    """
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(500):
        sizes = [(chance.randint(0, 12), chance.randint(1, 12)) for _ in range(9)]
        rows = _rows(sizes)
        data = bytes(chance.choices(b"ab", k=int(rows["size"].sum())))
        values = {"".join(chance.choices("ab", k=chance.randint(4, 6))) for _ in "12"}

        found = rows_with(rows, memoryview(data), values)

        for row in rows:
            at = int(row["offset"]) - 1000
            properties = data[at + int(row["properties_at"]) : at + int(row["size"])]
            if any(value.encode() in properties for value in values):
                assert row in found


@pytest.mark.parametrize("values", [{"abc"}, {""}, set[str](), {"name\ufffd"}])
def test_texts_that_cannot_be_searched_leave_no_row_out(values: set[str]) -> None:
    """
    Short texts are frequent; U+FFFD may stand for any bytes.
    """
    rows = _rows([(5, 5), (5, 5)])

    assert rows.tolist() == rows_with(rows, memoryview(bytes(20)), values).tolist()


@pytest.mark.parametrize("has_core", [True, False])
def test_a_key_selects_the_rows_that_have_it(
    has_core: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Rows that contain it only in the body are left out.
    """
    if not has_core:
        monkeypatch.setattr(task, "_open", PythonSegment)
    root = make_root(tmp_path)
    with open_log(root) as log:
        for number in range(300):
            body = b"about order-17" if number % 2 else b"nothing"
            message = Message("T", body, keys=[f"order-{number % 30:02d}"])
            log.append(message.form)

    selection = Selection().only_with(frozenset(["order-17"]))
    rows = read(root, ["keys", "body", "offset"], selection=selection)

    assert 10 == len(rows)
    assert {"order-17"} == {row["keys"] for row in rows}
    none = Selection().only_with(frozenset(["order-99"]))
    assert [] == read(root, ["offset"], selection=none)
