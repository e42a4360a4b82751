"""
Where histories part, by their epoch tables.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pystore.epochs.table import EpochTable
from pystore.spark.verify.forks import History, find_forks

Pairs = Sequence[tuple[int, int]]


def forks(*stores: tuple[Pairs | None, int]) -> dict[str, tuple[int, str]]:
    """
    Offset and winner of each fork; the stores are a, b, c.
    """
    histories = [
        History(name, None if pairs is None else EpochTable.of(pairs), end)
        for name, (pairs, end) in zip("abc", stores, strict=False)
    ]
    return {
        name: (one.offset, one.other) for name, one in find_forks(histories).items()
    }


@pytest.mark.parametrize(
    ("stores", "expected"),
    [
        ([([(1, 0)], 900), ([(1, 0), (2, 500)], 800)], {"a": (500, "b")}),
        ([([(1, 0)], 500), ([(1, 0), (2, 500)], 800)], {}),
        ([([(1, 0)], 400), ([(1, 0), (2, 500)], 800)], {}),
        ([([(1, 0)], 900), ([(1, 0)], 800)], {}),
        ([(None, 900), ([(1, 0), (2, 500)], 800)], {}),
        ([([], 900), ([(1, 0), (2, 500)], 800)], {}),
        ([([(1, 0)], 900), ([(1, 0), (2, 500)], 500)], {"a": (500, "b")}),
        (
            [([(1, 0), (2, 300)], 900), ([(1, 0), (3, 500)], 800)],
            {"a": (300, "b")},
        ),
        (
            [([(1, 0), (2, 600)], 900), ([(1, 0), (3, 500)], 800)],
            {"a": (500, "b")},
        ),
        ([([(1, 0)], 900), ([(2, 0)], 800)], {"a": (0, "b")}),
        ([([(1, 0)], 400), ([(5, 500)], 800)], {}),
    ],
    ids=[
        "old master went on",
        "up to date with the old epoch",
        "lags",
        "one epoch, other lengths",
        "no epoch file",
        "no entry",
        "new master without bytes",
        "two masters, the old one earlier",
        "two masters, the old one later",
        "nothing common",
        "lags behind all that retention left",
    ],
)
def test_the_log_with_the_highest_epoch_is_right(
    stores: list[tuple[Pairs | None, int]], expected: dict[str, tuple[int, str]]
) -> None:
    """
    The others part from it at the consistent point, as in replication.
    """
    assert expected == forks(*stores)


def test_an_epoch_above_the_end_of_its_log_is_not_compared() -> None:
    """
    It has no bytes there.
    """
    assert {"b": (500, "a")} == forks(
        ([(1, 0), (2, 500)], 800), ([(1, 0), (7, 950)], 900)
    )


def test_each_store_parts_by_itself() -> None:
    """
    All from the same winner.
    """
    found = forks(([(1, 0)], 900), ([(1, 0), (2, 600)], 900), ([(1, 0), (3, 700)], 800))

    assert {"a": (700, "c"), "b": (600, "c")} == found


def test_the_text_names_both_epochs() -> None:
    """
    And says to keep what only this store has.
    """
    tables = [EpochTable.of([(1, 0)]), EpochTable.of([(1, 0), (2, 500)])]
    histories = [
        History(f"/{name}", table, 900)
        for name, table in zip("ab", tables, strict=True)
    ]

    text = find_forks(histories)["/a"].text

    assert text.startswith("from offset 500 on it holds epoch 1, and /b, which")
    assert "holds epoch 2" in text
    assert "copy away first" in text
