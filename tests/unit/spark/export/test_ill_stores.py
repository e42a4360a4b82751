"""
Exports of a store with a segment that is missing, short or unreadable.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.spark.exports import SEGMENT, Growing, export_here, visible
from lib.spark.ill_stores import CASES, make_ill

from pystore.errors import CorruptError


@pytest.fixture
def store(tmp_path: Path) -> Growing:
    """
    A store of 300 records in several segments.
    """
    return Growing.new(tmp_path / "store", 300)


@pytest.mark.parametrize(("way", "place", "has_page"), CASES)
def test_an_export_names_the_missing_range_and_writes_nothing(
    store: Growing, tmp_path: Path, way: str, place: str, has_page: bool
) -> None:
    """
    Before a task begins.
    """
    into = tmp_path / "out"
    ill = make_ill(store, way, place, has_page=has_page)

    with pytest.raises(CorruptError, match=str(ill.path)) as caught:
        export_here(ill.root, into)

    assert "--on-damage" in str(caught.value)
    assert ill.path.name in str(caught.value.path)
    assert [] == visible(into)


@pytest.mark.parametrize("on_damage", ["report", "skip"])
@pytest.mark.parametrize("case", CASES)
def test_an_export_that_skips_damage_has_the_rest_and_one_range(
    store: Growing, tmp_path: Path, case: tuple[str, str, bool], on_damage: str
) -> None:
    """
    The commit file has the range from the first record that is gone on. A run after it
    continues behind.
    """
    into = tmp_path / "out"
    way, place, has_page = case
    ill = make_ill(store, way, place, has_page=has_page)

    commit = export_here(ill.root, into, on_damage=on_damage)

    assert commit
    assert ill.here == [row["offset"] for row in visible(into)]
    (damage,) = commit.damages
    assert ill.gone[0] == damage.offset
    assert ill.gone[-1] < damage.offset + damage.size <= ill.base + SEGMENT
    assert str(ill.path) in damage.text or "segment" in damage.text
    assert export_here(ill.root, into, on_damage=on_damage) is None


@pytest.mark.parametrize("way", ["missing", "short", "unreadable"])
def test_an_export_goes_on_although_what_it_exported_is_gone(
    tmp_path: Path, way: str
) -> None:
    """
    The rest of the segment in which the last run ended is a damaged range; what was
    exported from it is none.
    """
    store, into = Growing.new(tmp_path / "store", 60), tmp_path / "out"
    export_here(store.root, into)
    store.grow(240)
    ill = make_ill(store, way, "first", has_page=True)
    exported = [row["offset"] for row in visible(into)]
    assert exported[-1] in ill.gone

    with pytest.raises(CorruptError, match=str(ill.path)):
        export_here(ill.root, into)
    commit = export_here(ill.root, into, on_damage="skip")

    assert commit
    assert sorted({*exported, *ill.here}) == [row["offset"] for row in visible(into)]
    (damage,) = commit.damages
    assert min(set(ill.gone) - set(exported)) == damage.offset
    assert not commit.gaps


def test_a_range_below_the_exported_end_concerns_no_later_run(tmp_path: Path) -> None:
    """
    It was exported when it was there.
    """
    store, into = Growing.new(tmp_path / "store", 200), tmp_path / "out"
    export_here(store.root, into)
    store.grow(100)
    ill = make_ill(store, "missing", "first", has_page=True)

    commit = export_here(ill.root, into)

    assert commit
    assert (100, ()) == (commit.records, commit.damages)
