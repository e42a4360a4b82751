"""
Whole compactions, with the tasks run in this process.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lib.spark.compaction import (
    CHOICE,
    LocalJobs,
    digest,
    fill,
    latest,
    make_store,
    queue_records,
    value,
)
from lib.store.logs import make_root, open_log

from pystore.core.lock import Lock
from pystore.errors import CorruptError, FullError, InvalidError, LockedError
from pystore.message.message import Message
from pystore.spark.compact.files import ENTRY_DTYPE
from pystore.spark.compact.run import compact, survey
from pystore.verify import verify_store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """
    A store with records of every kind.
    """
    return make_store(tmp_path)


def values(queues: dict[str, list[Any]]) -> dict[str, list[tuple[Any, ...]]]:
    """
    The values that consumers get from each queue.
    """
    return {name: [value(one) for one in records] for name, records in queues.items()}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("keep_tombstones", [False, True], ids=["drop", "keep"])
def test_a_compaction_holds_the_latest_record_of_each_key(
    seed: int, keep_tombstones: bool, tmp_path: Path
) -> None:
    """
    Each queue keeps its order, and nothing else is changed.
    """
    print("seed", seed)
    store, into = make_store(tmp_path, seed), tmp_path / "out"
    choice = replace(CHOICE, keep_tombstones=keep_tombstones)

    compact(LocalJobs(), store, into, choice)

    expected = latest(store, keep_tombstones=keep_tombstones)
    assert values(expected) == values(queue_records(into))


def test_every_log_of_a_compaction_is_valid(store: Path, tmp_path: Path) -> None:
    """
    Offsets and checksums match the new places, and every file ends with a blank record.
    """
    into = tmp_path / "out"
    compact(LocalJobs(), store, into, CHOICE)

    for path in (into / "compaction" / "logs").glob("*/*"):
        report = verify_store(path, 1)
        assert [] == report.damages
        assert 0 == report.unproved
        assert report.end_offset % CHOICE.sizes.log_bytes > 0 or report.records
        files = sorted(path.glob("commitlog/*"))
        bases = [int(file.name) for file in files]
        assert list(range(0, bases[-1] + 1, CHOICE.sizes.log_bytes)) == bases


def test_every_entry_names_its_record(store: Path, tmp_path: Path) -> None:
    """
    Each file of a log has a file of entries, which ends with the end entry.
    """
    into = tmp_path / "out"
    compact(LocalJobs(), store, into, CHOICE)

    for queue, records in queue_records(into).items():
        logs = sorted((into / "compaction/compactionLog" / queue).iterdir())
        entries = sorted((into / "compaction/compactionCq" / queue).iterdir())
        assert [path.name for path in logs] == [path.name for path in entries]
        rows = [np.fromfile(path, ENTRY_DTYPE) for path in entries]
        ends = [int(np.argmax(some["offset"] == -1)) for some in rows]
        found = np.concatenate(
            [some[:end] for some, end in zip(rows, ends, strict=True)]
        )
        assert found["offset"].tolist() == [one.offset for one in records]
        assert found["size"].tolist() == [one.size for one in records]
        assert found["queue_offset"].tolist() == [one.queue_offset for one in records]
        assert found["store_ms"].tolist() == [one.store_ms for one in records]
        assert {1} == set(found["count"].tolist())
        for some, end in zip(rows, ends, strict=True):
            raw = some[end].tobytes().hex()
            assert "ff" * 8 + "00" * 30 + "ffffffff00000000" == raw
            assert not any(some[end + 1 :].tobytes())


def test_positions_are_the_last_queue_offset_of_each_queue(
    store: Path, tmp_path: Path
) -> None:
    """
    The largest queue offset counts, not that of the last record copied.
    """
    into = tmp_path / "out"
    found = compact(LocalJobs(), store, into, CHOICE)

    written = json.loads((into / "compaction/position-checkpoint").read_bytes())
    assert not written["empty"]
    assert written["queueOffsetMap"] == {
        f"{one.count.topic}_{one.count.queue_id}": one.count.last_queue_offset
        for one in found.queues
    }


def test_a_survey_counts_like_a_compaction_and_writes_nothing(
    store: Path, tmp_path: Path
) -> None:
    """
    The numbers are equal, queue by queue.
    """
    before = sorted(tmp_path.rglob("*"))

    output = survey(LocalJobs(), store, CHOICE)

    assert before == sorted(tmp_path.rglob("*"))
    done = compact(LocalJobs(), store, tmp_path / "out", CHOICE)
    assert output == done
    for queue in output.queues:
        records = latest(store)[queue.folder]
        assert len(records) == queue.records
        assert sum(one.size for one in records) == queue.size_bytes


def test_a_second_run_leaves_a_published_compaction_as_it_is(
    store: Path, tmp_path: Path
) -> None:
    """
    It returns the same result; for another choice, or a store that grew, it fails.
    """
    into = tmp_path / "out"
    first = compact(LocalJobs(), store, into, CHOICE)
    before = digest(into)

    again = compact(LocalJobs(), store, into, CHOICE)

    assert again == replace(first, is_resumed=True)
    assert before == digest(into)
    with pytest.raises(InvalidError, match=r"exists, .* give another directory"):
        compact(LocalJobs(), store, into, replace(CHOICE, topics=("T1",)))


def test_only_topics_that_match_are_compacted(store: Path, tmp_path: Path) -> None:
    """
    The patterns are those of a shell.
    """
    into = tmp_path / "out"
    compact(LocalJobs(), store, into, replace(CHOICE, topics=("T[12]",)))

    assert {"T1", "T2"} == {name.split("/")[0] for name in queue_records(into)}


def test_nothing_above_the_confirm_offset_is_read(tmp_path: Path) -> None:
    """
    While the store is written; the confirm offset may be within a record.
    """
    from pystore.store.commit_log import CommitLog  # noqa: PLC0415

    store, into = tmp_path / "store", tmp_path / "out"
    with CommitLog(store, segment_size=65536) as log:
        ends = [
            log.append(Message("T", b"%d" % n, keys=f"k{n % 7}")) for n in range(50)
        ]
        ends += [log.append(Message("T", b"new", keys="k1"))]
        confirmed = ends[30].offset
        log.writer.log.confirm(confirmed)

        found = compact(LocalJobs(), store, into, CHOICE)

        assert confirmed == found.plan.end
        assert values(latest(store, confirmed)) == values(queue_records(into))


def test_an_empty_store_has_an_empty_compaction(tmp_path: Path) -> None:
    """
    It is published like any other.
    """
    store, into = make_root(tmp_path), tmp_path / "out"
    with open_log(store):
        pass

    assert () == compact(LocalJobs(), store, into, CHOICE).queues
    positions = json.loads((into / "compaction/position-checkpoint").read_bytes())
    assert {"empty": True, "queueOffsetMap": {}} == positions


def test_the_newest_record_of_a_queue_stays(tmp_path: Path) -> None:
    """
    Even a tombstone: a consumer at the end of the queue must not be above the new end.
    """
    store = make_root(tmp_path)
    with open_log(store) as log:
        for keys, body in (("a", b"1"), ("b", b"2"), ("a", b""), ("b", b"")):
            log.append(Message("T", body, keys=keys).form)

    compact(LocalJobs(), store, tmp_path / "out", CHOICE)

    (records,) = queue_records(tmp_path / "out").values()
    assert [(3, b"", "b")] == [
        (one.queue_offset, one.body, one.keys) for one in records
    ]


def test_damage_ends_a_compaction_with_path_and_offset(
    store: Path, tmp_path: Path
) -> None:
    """
    Nothing is published.
    """
    path = sorted((store / "commitlog").iterdir())[1]
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)

    with pytest.raises(CorruptError, match=f"{path}: record at offset"):
        survey(LocalJobs(), store, CHOICE)
    with pytest.raises(CorruptError, match="nothing was compacted"):
        compact(LocalJobs(), store, tmp_path / "out", CHOICE)
    assert not (tmp_path / "out" / "compaction").exists()


@pytest.mark.parametrize("is_late", [False, True], ids=["one segment", "two"])
def test_queue_offsets_that_fall_back_are_damage(is_late: bool, tmp_path: Path) -> None:
    """
    A topic was deleted and created again: the latest record is unknown.
    """
    store = make_root(tmp_path)
    with open_log(store) as log:
        for number in range(5):
            log.append(Message("T", b"%d" % number, keys="k").form)
        if is_late:
            log.roll()
        log.queues_reset()
        log.append(Message("T", b"again", keys="k").form)

    with pytest.raises(
        CorruptError, match=r"queue offset 0 of T, queue 0, .* queue offset 4"
    ):
        survey(LocalJobs(), store, CHOICE)


def test_a_topic_that_is_no_valid_name_is_damage(tmp_path: Path) -> None:
    """
    Its path would be outside the directory.
    """
    store = make_root(tmp_path)
    with open_log(store, property_crc=False) as log:
        log.append(Message("T12345678", b"x", keys="k").form)
    (path,) = (store / "commitlog").iterdir()
    path.write_bytes(path.read_bytes().replace(b"T12345678", b"../../etc"))

    with pytest.raises(CorruptError, match=r"'../../etc' cannot be the name"):
        survey(LocalJobs(), store, CHOICE)


def test_too_little_space_is_an_error_before_anything_is_copied(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The error has the numbers; with enough space the next run continues.
    """
    into = tmp_path / "out"
    usage = shutil.disk_usage(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
        with pytest.raises(FullError, match=r"needs [\d.]+ kB, 1.00 kB are free"):
            compact(LocalJobs(), store, into, CHOICE)
    assert [] == list(into.glob("compacting/*/compaction"))

    assert compact(LocalJobs(), store, into, CHOICE).is_resumed


def test_a_compaction_into_a_store_is_refused(store: Path, tmp_path: Path) -> None:
    """
    Even if the user asks for it.
    """
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}

    with pytest.raises(InvalidError, match="is in the store"):
        compact(LocalJobs(), store, store / "compacted", CHOICE)
    compact(LocalJobs(), store, tmp_path / "out", CHOICE)

    after = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    assert before == after


def test_a_foreign_compaction_is_not_changed(store: Path, tmp_path: Path) -> None:
    """
    It may be a broker's.
    """
    (tmp_path / "out" / "compaction" / "compactionLog").mkdir(parents=True)

    with pytest.raises(InvalidError, match="not made by this command"):
        compact(LocalJobs(), store, tmp_path / "out", CHOICE)


def test_two_runs_into_one_directory_exclude_each_other(
    store: Path, tmp_path: Path
) -> None:
    """
    The second one fails.
    """
    (tmp_path / "out").mkdir()
    lock = Lock(tmp_path / "out" / "lock")

    with pytest.raises(LockedError):
        compact(LocalJobs(), store, tmp_path / "out", CHOICE)
    lock.release()


class Stopping(LocalJobs):
    """
    Jobs that fail after some segments are copied.
    """

    def copy(self, work: Any, layouts: Iterable[Any], done: Any) -> None:
        """
        Copies two more segments, and fails.
        """
        todo = [n for n in range(len(work.plan.bases)) if n not in done]
        super().copy(work, layouts, {*done, *todo[2:]})
        if len(todo) > 2:
            raise KeyboardInterrupt


def test_a_run_continues_the_work_of_the_last_one(tmp_path: Path) -> None:
    """
    It uses the same plan, although the store has grown; finished segments are not
    copied again.
    """
    store, into = make_root(tmp_path), tmp_path / "out"
    chance = random.Random(5)
    runs, found = 0, None
    with open_log(store) as log:
        fill(log, chance, 1000)
        compact(LocalJobs(), store, tmp_path / "whole", CHOICE)
        while found is None:
            runs += 1
            try:
                found = compact(Stopping(), store, into, CHOICE)
            except KeyboardInterrupt:
                assert 2 * runs == len(list(into.glob("compacting/*/copied/*")))
                fill(log, chance, 20)
    assert runs > 1
    assert found.is_resumed
    assert digest(tmp_path / "whole") == digest(into)
    assert not (into / "compacting").exists()


def test_work_on_a_log_that_was_cut_starts_again(tmp_path: Path) -> None:
    """
    The planned records may be missing or replaced.
    """
    store, into = make_root(tmp_path), tmp_path / "out"
    with open_log(store) as log:
        fill(log, random.Random(6), 1000)
        with pytest.raises(KeyboardInterrupt):
            compact(Stopping(), store, into, CHOICE)
    with open_log(store) as log:  # at offset 0: everything is another record now
        fill(log, random.Random(7), 1500)

        found = compact(LocalJobs(), store, into, CHOICE)

    assert not found.is_resumed
    assert values(latest(store)) == values(queue_records(into))
