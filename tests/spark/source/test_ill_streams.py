"""
Streams of a store with a segment that is missing, short or unreadable.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from lib.spark.exports import SEGMENT, Growing
from lib.spark.ill_stores import CASES, make_ill
from lib.spark.stream_driver import Driver

from pystore.errors import CorruptError
from pystore.store.commit_log import CommitLog


@pytest.fixture
def store(tmp_path: Path) -> Growing:
    """
    A store of 300 records in several segments.
    """
    return Growing.new(tmp_path / "store", 300)


def _all(driver: Driver) -> list[int]:
    found: list[int] = []
    while more := driver.batch():
        found += more
    return found


def _read_on(driver: Driver, found: list[int]) -> None:
    while True:
        more = driver.batch()
        assert more, "the stream ended before the missing range"
        found += more


@pytest.mark.parametrize("limit", [{}, {"maxBytesPerTrigger": 3000}])
@pytest.mark.parametrize(("way", "place", "has_page"), CASES)
def test_a_stream_fails_at_the_missing_range_and_not_before(
    store: Growing, way: str, place: str, has_page: bool, limit: dict[str, Any]
) -> None:
    """
    With limits, all batches below the range are delivered. The error names the file.
    """
    ill = make_ill(store, way, place, has_page=has_page)
    driver, found = Driver(ill.root, **limit), list[int]()

    with pytest.raises(CorruptError, match=str(ill.path)) as caught:
        _read_on(driver, found)

    assert ill.gone[0] == caught.value.offset
    if limit:
        assert [at for at in ill.here if at < ill.gone[0]] == found


@pytest.mark.parametrize("limit", [{}, {"maxBytesPerTrigger": 3000}])
@pytest.mark.parametrize(("way", "place", "has_page"), CASES)
def test_a_stream_that_reports_damage_has_the_rest_and_one_range(
    store: Growing, way: str, place: str, has_page: bool, limit: dict[str, Any]
) -> None:
    """
    The range begins with the first record that is gone.
    """
    ill = make_ill(store, way, place, has_page=has_page)
    driver, found = Driver(ill.root, onDamage="report", **limit), list[int]()
    while ill.here[-1] not in found or not driver.damages:
        before = driver.start
        found += driver.batch()
        assert before != driver.start, "the stream ended before the missing range"
    found += driver.batch()

    assert ill.here == found
    ((offset, size),) = driver.damages
    assert ill.gone[0] == offset
    assert ill.gone[-1] < offset + size <= ill.base + SEGMENT


@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_a_stream_that_has_read_a_range_goes_on_when_it_is_missing(
    store: Growing, place: str
) -> None:
    """
    Its checkpoint's record is gone, and nothing that it has still to read.
    """
    driver = Driver(store.root)
    assert store.offsets == driver.batch()
    make_ill(store, "missing", place, has_page=True)

    driver.restart()

    assert [] == driver.batch()


def test_a_stream_goes_on_in_the_middle_of_a_segment_that_is_missing_now(
    store: Growing,
) -> None:
    """
    What it has read of the segment is no damage; the rest is.
    """
    driver = Driver(store.root, onDamage="report", maxBytesPerTrigger=3000)
    found = driver.batch()
    ill = make_ill(store, "missing", "first", has_page=True)
    driver.restart()
    while ill.here[-1] not in found:
        found += driver.batch()

    assert sorted(set(found)) == found
    assert ill.here == [at for at in found if at not in ill.gone]
    unread = [at for at in ill.gone if at not in found]
    assert [(unread[0], ill.base + SEGMENT - unread[0])] == driver.damages


@pytest.mark.parametrize("on_damage", ["fail", "report"])
def test_an_offset_in_a_missing_range_is_a_start_there(
    store: Growing, on_damage: str
) -> None:
    """
    The rest of the range was requested, so it is reported.
    """
    ill = make_ill(store, "missing", "middle", has_page=True)
    start = ill.gone[3] + 1
    driver = Driver(ill.root, onDamage=on_damage, startingOffsets=start)

    if on_damage == "fail":
        with pytest.raises(CorruptError) as caught:
            driver.batch()
        assert start == caught.value.offset
        return
    found = _all(driver)
    assert [at for at in ill.here if at > start] == found
    assert [(start, ill.base + SEGMENT - start)] == driver.damages


def test_a_confirm_offset_in_a_missing_range_ends_no_stream_in_silence(
    store: Growing,
) -> None:
    """
    What is confirmed of the range is damage, and the rest of it when it is confirmed.
    """
    folder = store.root / "commitlog"
    last = max(base for base in map(int, _names(folder)) if base < store.offsets[-1])
    inside = [at for at in store.offsets if at >= last]
    with CommitLog(store.root) as log:
        log.writer.log.confirm(inside[5])
        driver = Driver(store.root, onDamage="report")
        (folder / f"{last:020}").rename(store.root / "kept")
        found = driver.batch()
        assert [at for at in store.offsets if at < last] == found
        assert [(last, inside[5] - last)] == driver.damages
        assert [] == driver.batch()
        log.writer.log.confirm(inside[9])
        assert [] == driver.batch()
        assert (inside[5], inside[9] - inside[5]) == driver.damages[-1]
        (store.root / "kept").rename(folder / f"{last:020}")


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_a_replica_serves_what_is_missing_from_another(
    store: Growing, tmp_path: Path
) -> None:
    """
    In one batch and in several, and for the same checkpoint.
    """
    other = tmp_path / "copy"
    shutil.copytree(store.root, other)
    make_ill(store, "missing", "middle", has_page=True)
    for limit in (3000, 1 << 30):
        driver = Driver(f"{tmp_path}/*", maxBytesPerTrigger=limit)
        assert store.offsets == _all(driver)
