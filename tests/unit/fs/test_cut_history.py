"""
The cuts of a log by generation: the least one since a generation, in any form.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pystore.errors import StorageError
from pystore.fs.cut_history import CUTS_AT, CutHistory, read_cuts, write_cuts

SEED = 20260731
PAGE = 4096


def test_the_least_cut_since_any_generation_is_known() -> None:
    """
    Compared with a list of all cuts, for random histories.
    """
    chance = random.Random(SEED)
    for _ in range(200):
        cuts = [chance.randrange(1000) for _ in range(chance.randrange(60))]
        history = CutHistory()
        for generation, offset in enumerate(cuts, 1):
            history = history.after(generation, offset)
        for seen in range(len(cuts) + 1):
            least = min(cuts[seen:], default=None)
            assert least == history.least_since(seen), f"seed {SEED}: {cuts} {seen}"
            assert history.knows(seen)


def test_a_full_history_tells_a_cut_that_is_too_low_and_never_one_too_high() -> None:
    """
    1000 cuts, each higher than the one before, still fit into the page.
    """
    history = CutHistory()
    for generation in range(1, 1001):
        history = history.after(generation, 10 * generation)

    assert 10 == history.least_since(0)
    assert all((history.least_since(one) or 0) <= 10 * one + 10 for one in range(1000))
    assert 9990 == history.least_since(998)
    assert len(history.encode()) <= PAGE - CUTS_AT


def test_a_history_knows_no_generation_before_its_beginning_and_after_its_end() -> None:
    """
    An older pystore, or another program, has cut the log before.
    """
    history = CutHistory(5, 5).after(6, 100)

    assert [False, True, True, False] == [history.knows(one) for one in (4, 5, 6, 7)]


def test_a_page_holds_the_history_behind_its_words(tmp_path: Path) -> None:
    """
    A page of an older pystore has none, and one with a changed byte is not believed.
    """
    page = tmp_path / "live"
    page.write_bytes(bytes(PAGE))
    assert read_cuts(page) is None

    history = CutHistory(1, 1).after(2, 70).after(3, 90)
    write_cuts(page, history)

    assert (history, PAGE) == (read_cuts(page), page.stat().st_size)
    changed = bytearray(page.read_bytes())
    changed[CUTS_AT + 40] ^= 1
    page.write_bytes(changed)
    assert read_cuts(page) is None
    assert read_cuts(tmp_path / "none") is None
    assert CutHistory.decode(history.encode()[:-1]) is None
    assert CutHistory.decode(b"") is None
    with pytest.raises(StorageError, match="cannot write"):
        write_cuts(tmp_path / "none", history)
