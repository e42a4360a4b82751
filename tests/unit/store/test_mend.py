"""
A store is mended while it is open: appends and reads go on.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from lib.command_line import segment_file
from lib.store.late import follow_from, pull
from lib.store.pairs import SEGMENT, fill, seal

from pystore import Check, CommitLog, Message, Store
from pystore.doctor.source import epochs_of
from pystore.errors import (
    CorruptError,
    InvalidError,
    OffsetOutOfRange,
    StorageError,
)
from pystore.seals import block_digest, list_seals, read_seal
from pystore.store.mend import (
    GoodBlock,
    forget_pulled,
    install_before,
    install_within,
    patch,
    pulled_path,
    write_block,
)
from pystore.store.sealer import seal_next
from pystore.verify import verify_store

RECORDS = 300


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """
    A sealed store of three epochs.
    """
    root = tmp_path / "whole"
    with Store(root, segment_size=SEGMENT, queue_file_bytes=20 * 40) as store:
        for epoch in (1, 2, 3):
            store.log.begin_epoch(epoch)
            for number in range(RECORDS // 3):
                body = b"body %d " % number * (number % 40 + 1)
                store.log.append(Message(f"t{number % 2}", body))
        store.dispatch()
        while seal_next(store.log.writer):
            pass
    return root


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """
    Two stores with the same log.
    """
    first, second = tmp_path / "a", tmp_path / "b"
    fill(first)
    seal(first)
    follow_from(first, second, 0)
    return first, second


def flip(path: Path, at: int) -> None:
    """
    Changes one bit of a file.
    """
    with path.open("r+b") as file:
        file.seek(at)
        old = file.read(1)
        file.seek(at)
        file.write(bytes([old[0] ^ 4]))


def good_block(root: Path, base: int) -> GoodBlock:
    """
    A whole segment of a store; it is smaller than a block.
    """
    data = segment_file(root, base).read_bytes()
    seal_of = read_seal(root / "meta" / "seals", base)
    assert seal_of is not None
    return GoodBlock(base, data, seal_of.block_digests[0])


def install(source: Path, store: Store, base: int, kept: Path | None = None) -> None:
    """
    Copies a segment of another store, and installs it.
    """
    pulled = pull(source, store, base)
    if base < store.log.min_offset:
        install_before(store.log.writer, store.queues, pulled)
    else:
        install_within(store.log.writer, base, kept)


def bodies(log: CommitLog) -> int:
    """
    The number of whole records, each checked.
    """
    found = log.scan(checks=Check.BODY | Check.PROPERTY | Check.OFFSET).finish()
    if found.stop.is_bad:
        raise CorruptError(found.text, offset=found.offset)
    return found.records


def test_a_flipped_bit_is_patched_under_the_writer_and_an_open_reader(
    pair: tuple[Path, Path],
) -> None:
    """
    Both have mapped the file: they see the right bytes at once, and appends go on.
    """
    good, bad = pair
    with Store(bad) as store, CommitLog(bad, mode="r") as reader:
        flip(segment_file(bad, SEGMENT), 700)
        for log in (store.log, reader):
            with pytest.raises(CorruptError):
                bodies(log)
        store.log.append(Message("t0", b"during"))
        assert 1 == patch(store.log.writer, [good_block(good, SEGMENT)])
        store.log.append(Message("t0", b"after"))
        assert RECORDS + 2 == bodies(store.log) == bodies(reader)
    assert verify_store(bad).verdict == "whole"


def test_bytes_of_another_digest_are_not_written(pair: tuple[Path, Path]) -> None:
    """
    A source may lie, or its disk.
    """
    good, bad = pair
    path = segment_file(bad, SEGMENT)
    flip(path, 700)
    before = path.read_bytes()
    block = good_block(good, SEGMENT)
    with Store(bad) as store:
        with pytest.raises(CorruptError, match="not those of their digest"):
            patch(store.log.writer, [block._replace(data=bytes(len(block.data)))])
        assert before == path.read_bytes()


@pytest.mark.parametrize("at", [-SEGMENT, 100 * SEGMENT])
def test_bytes_that_are_not_of_the_synced_log_are_refused(
    pair: tuple[Path, Path], at: int
) -> None:
    """
    Retention or a cut may have taken the segment since.
    """
    good, bad = pair
    block = good_block(good, SEGMENT)
    with Store(bad) as store, pytest.raises(OffsetOutOfRange, match="is on disk from"):
        patch(store.log.writer, [block._replace(offset=at)])


def test_a_file_that_is_not_whole_is_not_patched(pair: tuple[Path, Path]) -> None:
    """
    It needs a whole one; neither is the file of another store, by a hard link.
    """
    good, bad = pair
    block = good_block(good, SEGMENT)
    path = segment_file(bad, SEGMENT)
    with Store(bad) as store:
        os.link(path, bad.parent / "backup")
        with pytest.raises(InvalidError, match="another store shares the file"):
            patch(store.log.writer, [block])
        os.truncate(path, 100)
        with pytest.raises(InvalidError, match=r"100 bytes.*install a whole segment"):
            patch(store.log.writer, [block])
        path.unlink()
        with pytest.raises(InvalidError, match=r"No such file.*install"):
            patch(store.log.writer, [block])


def test_a_disk_that_loses_what_was_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    What is compared comes from the disk.
    """
    path = tmp_path / "file"
    path.write_bytes(bytes(8192))
    write_block(path, 4096, memoryview(b"x" * 4096))
    assert bytes(4096) + b"x" * 4096 == path.read_bytes()
    with pytest.raises(StorageError, match="/dev/null"):
        write_block(Path("/dev/null"), 0, memoryview(b"x"))
    # A file system that tells success and has the old bytes.
    monkeypatch.setattr("pystore.store.mend.read_disk", lambda *_: bytes(4096))
    with pytest.raises(StorageError, match="at 4096 than were written: replace the"):
        write_block(path, 4096, memoryview(b"x" * 4096))


@pytest.mark.parametrize("damage", ["missing", "short", "bad"])
def test_a_whole_segment_is_installed_under_the_writer_and_an_open_reader(
    pair: tuple[Path, Path], damage: str
) -> None:
    """
    The damaged file is kept under another name.
    """
    good, bad = pair
    path, kept = segment_file(bad, SEGMENT), bad.parent / "kept"
    with Store(bad) as store, CommitLog(bad, mode="r") as reader:
        bodies(reader)
        if damage == "missing":
            path.unlink()
        elif damage == "short":
            os.truncate(path, 500)
        else:
            flip(path, 700)
        store.log.append(Message("t0", b"during"))
        install(good, store, SEGMENT, kept)
        store.log.append(Message("t0", b"after"))
        assert RECORDS + 2 == bodies(store.log) == bodies(reader)
        assert (damage != "missing") == kept.exists()
        with CommitLog(bad, mode="r") as later:
            assert RECORDS + 2 == bodies(later)
    assert verify_store(bad).verdict == "whole"


def test_a_log_that_began_late_is_filled_down_to_its_set_s_floor(
    whole: Path, tmp_path: Path
) -> None:
    """
    Queues, epochs and seals are those of a store that has all of it, also after the
    next opening; records are read by their queue offsets.
    """
    late, first = tmp_path / "late", 3 * SEGMENT
    follow_from(whole, late, first)
    with Store(late) as store, Store(late, mode="r") as reader:
        assert store.queue_range("t0", 0)[0] > 0
        for base in range(first - SEGMENT, -1, -SEGMENT):
            install(whole, store, base)
            assert base == store.log.min_offset
            store.log.append(Message("t0", b"new"))
        check_filled(store, whole, extra=3)
        assert store.read("t0", 0, 0).body == reader.read("t0", 0, 0).body
    report = verify_store(late)
    assert report.verdict == "whole"
    assert 0 == report.queues.missing
    with Store(late) as store:
        assert store.log.recovery.is_clean
        check_filled(store, whole, extra=3)
    for base in list_seals(whole / "meta" / "seals"):
        expected = read_seal(whole / "meta" / "seals", base)
        found = read_seal(late / "meta" / "seals", base)
        assert expected is not None
        assert found is not None
        assert expected.digest == found.digest


def check_filled(store: Store, whole: Path, extra: int) -> None:
    """
    Checks that a store has what another one has, and more records at its end.
    """
    with Store(whole, mode="r") as other:
        assert (0, other.queue_range("t0", 0)[1] + extra) == store.queue_range("t0", 0)
        assert other.queue_range("t1", 0) == store.queue_range("t1", 0)
        for topic in ("t0", "t1"):
            end = other.queue_range(topic, 0)[1]
            expected = [one.body for one in other.read_from(topic, 0, 0, end)]
            assert expected == [one.body for one in store.read_from(topic, 0, 0, end)]
    known = epochs_of(whole)
    assert known is not None
    assert known.entries == store.log.epochs.entries


def test_a_queue_without_a_later_record_goes_on_at_its_number(
    tmp_path: Path,
) -> None:
    """
    All its records are in the segments that are filled in.
    """
    root, late = tmp_path / "whole", tmp_path / "late"
    with Store(root, segment_size=SEGMENT, queue_file_bytes=20 * 40) as store:
        for _ in range(7):
            store.log.append(Message("quiet", b"q"))
        for number in range(400):
            store.log.append(Message("t", b"x" * (number % 200)))
        store.dispatch()
    follow_from(root, late, 2 * SEGMENT)
    with Store(late) as store:
        install(root, store, SEGMENT)
        install(root, store, 0)
        assert (0, 7) == store.queue_range("quiet", 0)
        assert 7 == store.log.append(Message("quiet", b"next")).queue_offset
        assert b"next" == store.read("quiet", 0, 7).body
    with Store(late) as store:
        assert (0, 8) == store.queue_range("quiet", 0)
        assert b"q" == store.read("quiet", 0, 0).body


def test_only_the_segment_before_the_first_one_is_put_there(
    whole: Path, tmp_path: Path
) -> None:
    """
    What is refused changes nothing, and neither does a bad record in it.
    """
    late = tmp_path / "late"
    follow_from(whole, late, 3 * SEGMENT)
    with Store(late) as store:
        with pytest.raises(InvalidError, match="does not end where the log begins"):
            install(whole, store, SEGMENT)
        pulled = pull(whole, store, 2 * SEGMENT)
        flip(pulled_path(late, 2 * SEGMENT), 700)
        with pytest.raises(CorruptError, match="has a bad record"):
            install_before(store.log.writer, store.queues, pulled)
        assert 3 * SEGMENT == store.log.min_offset
        with pytest.raises(OffsetOutOfRange):
            store.read("t0", 0, 0)
    assert verify_store(late).verdict == "whole"


def test_digests_of_blocks_are_those_of_the_seal(pair: tuple[Path, Path]) -> None:
    """
    A caller may compute them of bytes that another copy equals.
    """
    block = good_block(pair[0], 0)
    assert block.digest == block_digest([block.data])


def test_a_cut_waits_for_the_block_that_is_written(pair: tuple[Path, Path]) -> None:
    """
    Else it would zero bytes that the repair writes back.
    """
    good, bad = pair
    block = good_block(good, SEGMENT)
    with Store(bad) as store:
        with store.log.writer.mending:
            cutting = threading.Thread(target=store.cut, args=(SEGMENT,))
            cutting.start()
            cutting.join(0.2)
            assert cutting.is_alive()
            assert store.log.end_offset > SEGMENT
        cutting.join()
        assert SEGMENT == store.log.end_offset
        with pytest.raises(OffsetOutOfRange):
            patch(store.log.writer, [block])


def test_an_opening_keeps_what_a_repair_copied_for_a_day(tmp_path: Path) -> None:
    """
    The repair goes on with it after a restart; other temporary files go.
    """
    root = tmp_path / "store"
    with Store(root, queue_file_bytes=800, segment_size=1 << 16):
        pulled = pulled_path(root, 5 << 16)
    pulled.write_bytes(bytes(1 << 16))
    draft = pulled.with_suffix(".draft")
    draft.touch()
    with Store(root):
        assert [pulled] == list(pulled.parent.iterdir())
    long_ago = time.time() - 25 * 3600
    os.utime(pulled, (long_ago, long_ago))
    with Store(root):
        assert [] == list(pulled.parent.iterdir())
    forget_pulled(root, 5 << 16)
