"""
A salvage takes all that is whole, whatever happened to the rest.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
from pathlib import Path
from typing import NamedTuple

import pytest
from lib.command_line import make_store, overwrite, segment_file
from lib.oracle.golden_data import GoldenStore
from lib.store.stores import fill, kill_while

from pystore.core.lock import Lock
from pystore.errors import InvalidError, LockedError
from pystore.message.message import Message
from pystore.message.record import Record
from pystore.salvage import run as salvage_run
from pystore.salvage import salvage_records, salvage_store
from pystore.salvage.records import RecordBlock
from pystore.store.commit_log import CommitLog
from pystore.store.store import Store
from pystore.verify import verify_store

SEGMENT = 16384
SEED = int(os.environ.get("PS_SEED", "1"))
CASES = int(os.environ.get("SALVAGE_CASES", "25"))


class Content(NamedTuple):
    """
    What a salvage keeps of a record.
    """

    topic: str
    queue_id: int
    queue_offset: int
    body: bytes
    properties: dict[str, str]
    numbers: tuple[int, ...]
    hosts: tuple[str, str]


def content(record: Record) -> Content:
    """
    All of a record but its offset and its property CRC.
    """
    properties = {k: v for k, v in record.properties.items() if k != "__CRC32#"}
    return Content(
        record.topic,
        record.queue_id,
        record.queue_offset,
        record.body,
        properties,
        (
            record.store_ms,
            record.born_ms,
            record.flag,
            record.sys_flag,
            record.reconsume_times,
            record.prepared_offset,
        ),
        (record.born_host, record.store_host),
    )


def records_of(root: Path) -> list[Record]:
    """
    All records of a whole store.
    """
    with CommitLog(root, mode="r") as log:
        offsets = [int(one) for rows in log.scan() for one in rows["offset"]]
        return [log.read(offset) for offset in offsets]


def contents(root: Path) -> list[Content]:
    """
    The contents of all records of a whole store.
    """
    return [content(record) for record in records_of(root)]


def random_store(root: Path, draw: random.Random, *, has_crc: bool) -> None:
    """
    A store of several segments and queues.
    """
    with Store(
        root, segment_size=SEGMENT, queue_file_bytes=400, property_crc=has_crc
    ) as store:
        for number in range(draw.randrange(50, 400)):
            body = draw.randbytes(draw.choice((0, 10, 300, draw.randrange(2000))))
            message = Message(
                f"t{draw.randrange(3)}",
                body,
                queue_id=draw.randrange(3),
                keys=[f"k{number}"],
                tags=draw.choice((None, "a", "b")),
                properties={"p": "\t" * draw.randrange(1, 3)},
                flag=draw.randrange(9),
                born_host=draw.choice((None, "10.1.2.3:4", "[::1]:5")),
            )
            store.log.append(message)


def random_damage(root: Path, draw: random.Random) -> None:
    """
    Bits, pages, short and missing files of a log.
    """
    for _ in range(draw.randrange(1, 6)):
        files = sorted((root / "commitlog").iterdir())
        path = draw.choice(files)
        data = bytearray(path.read_bytes())
        way = draw.choice(("bit", "bit", "bit", "page", "short", "gone", "junk"))
        if not data:
            continue
        at = draw.randrange(len(data))
        if way == "gone" and len(files) > 1:
            path.unlink()
            continue
        if way == "bit":
            data[at] ^= 1 << draw.randrange(8)
        elif way == "page":
            data[at // 512 * 512 : at // 512 * 512 + 512] = bytes(512)
        elif way == "junk":
            data[at : at + 40] = draw.randbytes(len(data[at : at + 40]))
        elif way == "short":
            del data[at:]
        path.write_bytes(data)


def unchanged(root: Path, before: list[Record]) -> list[Record]:
    """
    The records whose bytes are in the damaged store as they were.
    """
    files = {path.name: path.read_bytes() for path in (root / "commitlog").iterdir()}
    found = []
    for record in before:
        base = record.offset // SEGMENT * SEGMENT
        data = files.get(f"{base:020d}", b"")
        at = record.offset - base
        if data[at : at + record.size] == record.data:
            found.append(record)
    return found


@pytest.mark.parametrize("has_crc", [True, False])
def test_every_whole_record_of_a_damaged_store_is_in_the_new_one(
    tmp_path: Path, has_crc: bool
) -> None:
    """
    With equal content, in order, and the new store is whole; the old one is not
    changed. Each case is named by its number under the seed.
    """
    print(f"seed {SEED}")
    for number in range(CASES):
        draw = random.Random(f"{SEED} {number}")
        folder = tmp_path / str(number)
        folder.mkdir()
        root, target = folder / "s", folder / "t"
        random_store(root, draw, has_crc=has_crc)
        before = records_of(root)
        random_damage(root, draw)
        kept = unchanged(root, before)
        files = {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}
        verdict = verify_store(root)
        report = salvage_store(root, target)

        label = f"seed {SEED}, case {number}"
        after = verify_store(target)
        assert ("whole", report.records) == (after.verdict, after.records), label
        assert 0 == after.queues.missing, label
        assert files == {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}
        found = contents(target)
        rejected = report.repeated + report.impossible
        assert verdict.records <= len(found) + rejected, label
        expected = [content(record) for record in kept]
        there = iter(found)
        assert all(any(a == b for b in there) for a in expected), label
        if has_crc:
            # Damage to the property CRC itself may leave a record without one.
            assert len(found) - len(expected) <= report.unproved, label
            assert rejected <= report.unproved, label
        shutil.rmtree(folder)


def test_every_golden_store_is_taken_completely(
    golden_store: GoldenStore, golden_root: Path, tmp_path: Path
) -> None:
    """
    What RocketMQ wrote, with all kinds of records, and with queues that lost their
    first entries.
    """
    report = salvage_store(golden_root, tmp_path / "t")

    assert contents(golden_root) == contents(tmp_path / "t")
    assert len(golden_store.records) == report.records
    after = verify_store(tmp_path / "t")
    assert ("whole", report.records) == (after.verdict, after.records)


def test_what_an_opening_saved_comes_back(tmp_path: Path) -> None:
    """
    The first file of a lost directory begins in the middle of a segment.
    """
    root = tmp_path / "s"
    kill_while(root, lambda log: fill(log, 2500))
    before = contents(root)
    with CommitLog(root, mode="r") as log:
        offsets = [int(at) for rows in log.scan() for at in rows["offset"]]
    overwrite(segment_file(root), offsets[100] + 120, b"\xff")
    with CommitLog(root, accept_loss=True) as log:
        assert log.recovery.loss is not None
        lost = log.recovery.loss.directory
    names = sorted(path.name for path in lost.iterdir())
    report = salvage_store(lost, tmp_path / "t", segment_size=1 << 16)

    assert f"{offsets[100]:020d}" == names[0]
    assert before[101:] == contents(tmp_path / "t")
    assert "whole" == verify_store(tmp_path / "t").verdict
    assert [offsets[100]] == [one.offset for one in report.left]
    assert names == sorted(path.name for path in lost.iterdir())
    (lost / names[0]).rename(tmp_path / names[0])
    shutil.rmtree(lost)
    lost.mkdir()
    (tmp_path / names[0]).rename(lost / names[0])
    # Alone, it does not show the size of its segment, whose end is a blank record.
    alone = salvage_store(lost, tmp_path / "u", segment_size=1 << 16)
    assert [offsets[100]] == [one.offset for one in alone.left]
    count = sum(offsets[100] < one < 1 << 16 for one in offsets)
    assert before[101 : 101 + count] == contents(tmp_path / "u")


def test_a_repeated_queue_offset_is_taken_once_and_named(tmp_path: Path) -> None:
    """
    The first one counts. JSON lines have both.
    """
    root = tmp_path / "s"
    with CommitLog(root, segment_size=SEGMENT) as log:
        first = [log.append(Message("t", b"%d" % i)).offset for i in range(5)]
        log.writer.log.queues_reset()
        second = [log.append(Message("t", b"+%d" % i)).offset for i in range(7)]
    report = salvage_store(root, tmp_path / "t")
    with Store(tmp_path / "t") as store:
        found = store.read_from("t", 0, 0, 10)

    assert [b"0", b"1", b"2", b"3", b"4", b"+5", b"+6"] == [one.body for one in found]
    assert (5, second[:5]) == (
        report.repeated,
        [one.offset for one in report.rejected],
    )
    assert [0, 1, 2, 3, 4] == [one.queue_offset for one in report.rejected]
    taken: list[int] = []

    def take(block: RecordBlock) -> None:
        taken.extend(block.rows["offset"].tolist())

    assert salvage_records(root, take).is_complete
    assert first + second == taken


def test_queue_offsets_in_any_order_have_their_slots(tmp_path: Path) -> None:
    """
    A topic that was made anew begins at 0 again, behind records with high ones.
    """
    root = tmp_path / "s"
    with CommitLog(root, segment_size=SEGMENT) as log:
        log.writer.log.queues_load({("t", 0): 50})
        for number in range(50, 60):
            log.append(Message("t", b"%d" % number))
        log.writer.log.queues_reset()
        for number in range(4):
            log.append(Message("t", b"%d" % number))
    report = salvage_store(root, tmp_path / "t", queue_file_bytes=1000)
    with Store(tmp_path / "t") as store:
        low, high = store.read_from("t", 0, 0, 4), store.read_from("t", 0, 50, 10)

    assert (0, 14) == (report.impossible, report.records)
    assert [b"0", b"1", b"2", b"3"] == [one.body for one in low]
    assert [b"%d" % number for number in range(50, 60)] == [one.body for one in high]
    assert "whole" == verify_store(tmp_path / "t").verdict


def test_a_copied_property_crc_is_unproved_and_gets_one_of_its_own(
    tmp_path: Path,
) -> None:
    """
    Its neighbours in the new store may be others than before.
    """
    root = tmp_path / "s"
    with CommitLog(root, segment_size=SEGMENT, property_crc=False) as log:
        for _ in range(3):
            log.append(Message("t", b"plain"))
            log.append(Message("t", b"body", properties={"k": "v" * 17}))
    # As a broker copies the properties of another record.
    entry, copied = b"k\x01" + b"v" * 17 + b"\x02", b"__CRC32#\x010123456789\x02"
    path = segment_file(root)
    path.write_bytes(path.read_bytes().replace(entry, copied))
    report = salvage_store(root, tmp_path / "t")
    after = verify_store(tmp_path / "t")

    assert (6, 6) == (report.records, report.unproved)
    assert ("whole", 6, 3) == (after.verdict, after.records, after.unproved)
    assert contents(root) == contents(tmp_path / "t")


def test_the_target_is_new_and_not_in_the_source(tmp_path: Path) -> None:
    """
    A file in it, the source, and a place inside of it are refused.
    """
    root = make_store(tmp_path / "s")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "link").symlink_to(root)
    refused = ("full", "s", "s/new", "s/commitlog/new", "link", "link/new")
    for name in (*refused, "missing/new"):
        with pytest.raises(InvalidError):
            salvage_store(root, tmp_path / name)
    (tmp_path / "empty").mkdir()
    salvage_store(root, tmp_path / "empty")

    assert contents(root) == contents(tmp_path / "empty")
    assert {"s", "full", "link", "empty"} == {one.name for one in tmp_path.iterdir()}


def test_a_record_that_fits_no_segment_is_told_before_anything_is_made(
    tmp_path: Path,
) -> None:
    """
    With a larger one it works.
    """
    root = tmp_path / "s"
    with CommitLog(root, segment_size=SEGMENT) as log:
        size = log.append(Message("t", bytes(5000))).end
    with pytest.raises(InvalidError, match=f"{size} bytes"):
        salvage_store(root, tmp_path / "t", segment_size=size + 7)
    assert [root] == list(tmp_path.iterdir())
    salvage_store(root, tmp_path / "t", segment_size=size + 8)

    assert "whole" == verify_store(tmp_path / "t").verdict


def test_a_killed_salvage_leaves_a_directory_that_says_so(tmp_path: Path) -> None:
    """
    The target does not exist; another run begins anew and finishes.
    """
    root = make_store(tmp_path / "s")
    child = os.fork()
    if child == 0:
        try:
            salvage_store(
                root,
                tmp_path / "t",
                progress=lambda done, total: (
                    os.kill(os.getpid(), signal.SIGKILL) if done > total // 2 else None
                ),
            )
        finally:
            os._exit(1)
    assert signal.SIGKILL == os.WTERMSIG(os.waitpid(child, 0)[1])
    draft = tmp_path / "t.unfinished"
    assert "did not finish" in (draft / "README").read_text()
    assert {"s", "t.unfinished"} == {one.name for one in tmp_path.iterdir()}
    with Lock(draft / "lock"), pytest.raises(LockedError, match="another process"):
        salvage_store(root, tmp_path / "t")
    salvage_store(root, tmp_path / "t")

    assert contents(root) == contents(tmp_path / "t")
    assert {"s", "t"} == {one.name for one in tmp_path.iterdir()}


def test_a_directory_of_that_name_from_elsewhere_is_not_touched(tmp_path: Path) -> None:
    """
    Only what a salvage made is removed.
    """
    root = make_store(tmp_path / "s")
    other = tmp_path / "t.unfinished"
    other.mkdir()
    (other / "mine").touch()
    with pytest.raises(InvalidError, match="not made by this command"):
        salvage_store(root, tmp_path / "t")

    assert ["mine"] == os.listdir(other)


def test_a_failed_salvage_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Its space is free again.
    """
    root = make_store(tmp_path / "s")

    def refuse(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(salvage_run, "_publish", refuse)
    with pytest.raises(KeyboardInterrupt):
        salvage_store(root, tmp_path / "t")

    assert [root] == list(tmp_path.iterdir())
