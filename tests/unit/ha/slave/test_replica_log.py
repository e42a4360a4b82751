"""
The log of a slave: what each effect does, and what a crash leaves of it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.ha.slave_logs import kill_while, master_bytes, opened, record_end
from lib.store.stores import SEGMENT, bodies, fill

from pystore.epochs.table import EpochEntry, EpochTable
from pystore.errors import (
    CorruptError,
    FencedError,
    FullError,
    InvalidError,
    LockedError,
    OffsetOutOfRange,
    PoisonedError,
    StorageError,
)
from pystore.ha.slave.effects import Adopt, Append, Compare, Confirm, Cut
from pystore.ha.slave.replica_log import ReplicaLog, ack_status
from pystore.ha.wire.codes import AckStatus
from pystore.ha.wire.effects import Promise
from pystore.message.message import Message
from pystore.metastore.database import MetaStore
from pystore.metastore.schema import PROMISED
from pystore.store.commit_log import CommitLog
from pystore.store.store import Store
from pystore.verify import verify_store


@pytest.fixture
def master(tmp_path: Path) -> bytes:
    """
    The bytes of a log of 3000 records, over seven segments.
    """
    return master_bytes(tmp_path / "master")


@pytest.fixture
def slave(tmp_path: Path) -> Path:
    """
    Where the replica is.
    """
    return tmp_path / "slave"


def test_bytes_become_the_masters_log(master: bytes, slave: Path) -> None:
    """
    In pieces of any size: the same files, and a store that verify calls whole.
    """
    with opened(slave) as log:
        for at in range(0, len(master), 7777):
            log.carry_out(Append(at, memoryview(master)[at : at + 7777]))
            assert min(at + 7777, len(master)) == log.log().received_offset
        assert len(master) == log.log().end_offset

    with CommitLog(slave, mode="r") as log_read:
        assert master == b"".join(bytes(block.view) for block in log_read.blocks())
        assert 3000 == len(bodies(log_read))
    assert verify_store(slave).verdict == "whole"


def test_blocks_of_one_append_stand_one_behind_the_other(
    master: bytes, slave: Path
) -> None:
    """
    Wherever they end, in one segment or in several; an empty one is none.
    """
    view = memoryview(master)
    with opened(slave) as log:
        log.carry_out(
            Append(0, view[:11], None, (view[11:11], view[11:70_000], view[70_000:]))
        )
        assert len(master) == log.log().end_offset

    with CommitLog(slave, mode="r") as log_read:
        assert master == b"".join(bytes(block.view) for block in log_read.blocks())


def test_a_half_record_is_received_and_not_yet_whole(
    master: bytes, slave: Path
) -> None:
    """
    The two ends are told apart (A1), and a clean stop drops the half.
    """
    end = record_end(master, 5000)
    with opened(slave) as log:
        log.carry_out(Append(0, master[: end + 11]))
        assert (end, end + 11) == (log.log().end_offset, log.log().received_offset)

    with opened(slave) as log:
        assert log.recovery.is_clean
        assert (end, end) == (log.log().end_offset, log.log().received_offset)


def test_an_epoch_is_durable_before_its_first_byte(master: bytes, slave: Path) -> None:
    """
    A kill right after the effect leaves the entry in LMDB and in RocketMQ's file.
    """
    end = record_end(master, 5000)

    def work(log: ReplicaLog) -> None:
        log.carry_out(Append(0, master[:end], EpochEntry(1, 0)))
        log.carry_out(Append(end, b"", EpochEntry(4, end)))

    kill_while(slave, work)
    assert (
        b"1-0\n4-%d\n" % end
        == (slave / "epochFileCheckpoint").read_bytes().split(b"\n", 2)[2]
    )
    with opened(slave) as log:
        assert EpochTable.of([(1, 0), (4, end)]) == log.log().epochs


def test_an_epoch_that_is_there_is_not_written_again(
    master: bytes, slave: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    No frame but the first of an epoch waits for a disk.
    """
    entry = EpochEntry(1, 0)
    with opened(slave) as log:
        log.carry_out(Append(0, master[:1000], entry))
        with monkeypatch.context() as patched:
            patched.setattr(MetaStore, "change", None)
            log.carry_out(Append(1000, master[1000:2000], entry))


def test_an_older_epoch_is_a_catch_up_and_no_fence(master: bytes, slave: Path) -> None:
    """
    A slave that promised epoch 9 still receives what epoch 2 wrote.
    """
    with opened(slave) as log:
        log.carry_out(Promise(9))
        log.carry_out(Append(0, master[:1000], EpochEntry(2, 0)))

        assert (9, 2) == (log.log().promised_epoch, log.log().epochs.last_epoch)


def test_an_epoch_that_begins_above_its_bytes_is_refused(
    master: bytes, slave: Path
) -> None:
    """
    And so is one that the table does not go on with.
    """
    with opened(slave) as log:
        with pytest.raises(InvalidError):
            log.carry_out(Append(0, master[:1000], EpochEntry(2, 10)))
        log.carry_out(Append(0, master[:1000], EpochEntry(2, 0)))
        with pytest.raises(InvalidError):
            log.carry_out(Append(1000, master[1000:2000], EpochEntry(1, 1000)))
        assert 1000 == log.log().received_offset


def test_a_promise_outlives_a_kill(slave: Path) -> None:
    """
    It is in LMDB when the call returns, and no lower one is accepted (B6).
    """
    kill_while(slave, lambda log: log.carry_out(Promise(7)))

    with MetaStore.open_read_only(slave / "meta") as checkpoint:
        assert 7 == checkpoint.read(PROMISED)
    with opened(slave) as log:
        assert 7 == log.log().promised_epoch
        with pytest.raises(FencedError):
            log.carry_out(Promise(6))


def test_an_empty_log_begins_at_a_segment_only(master: bytes, slave: Path) -> None:
    """
    The line says what to do about it.
    """
    with opened(slave) as log:
        with pytest.raises(InvalidError, match="segment size"):
            log.carry_out(Append(1000, master[1000:2000]))
        log.carry_out(Append(SEGMENT, master[SEGMENT:]))


def test_the_confirm_offset_stays_within_the_log_and_never_falls(
    master: bytes, slave: Path
) -> None:
    """
    A master is often ahead of its slave.
    """
    end = record_end(master, 5000)
    with opened(slave) as log:
        log.carry_out(Append(0, master[: end + 5]))
        log.carry_out(Confirm(10**9))
        assert end == log.log().confirm_offset
        log.carry_out(Confirm(17))
        assert end == log.log().confirm_offset


def test_queues_end_where_the_master_confirmed(master: bytes, slave: Path) -> None:
    """
    While it follows, a replica shows no record that might be taken back; a clean
    stop leaves them complete, as a Java broker expects them.
    """
    end = record_end(master, 50_000)
    with opened(slave) as log:
        log.carry_out(Append(0, master))
        log.carry_out(Confirm(end - 1))
        log._store.keep()  # the keeper's turn, not to wait for it
        with Store(slave, mode="r") as store:
            named = [queue.last_entry() for queue in store.queues]
            assert end > max(e.offset + e.size for e in named if e) > end - 1000
    with Store(slave, mode="r") as store:
        assert 3000 == sum(queue.max_index for queue in store.queues)


def test_what_is_synced_is_said(master: bytes, slave: Path) -> None:
    """
    After `sync` every whole record is flushed.
    """
    end = record_end(master, 5000)
    with opened(slave) as log:
        log.carry_out(Append(0, master[: end + 9]))
        log.sync()

        assert end == log.log().flushed_offset


def test_a_bad_byte_is_refused_and_what_was_whole_stays(
    master: bytes, slave: Path
) -> None:
    """
    The right bytes follow behind the last whole record.
    """
    end = record_end(master, 5000)
    wrong = bytearray(master[:20_000])
    wrong[end + 60] ^= 1
    with opened(slave) as log:
        with pytest.raises(CorruptError) as caught:
            log.carry_out(Append(0, bytes(wrong)))
        assert AckStatus.BAD_CRC is ack_status(caught.value)
        assert (end, end) == (log.log().end_offset, log.log().received_offset)
        log.carry_out(Append(end, master[end:]))


def test_blocks_before_a_bad_one_are_in(master: bytes, slave: Path) -> None:
    """
    None behind it is; what was whole stays, and the right bytes follow it.
    """
    end = record_end(master, 20_000)
    wrong = bytearray(master[10_000:30_000])
    wrong[end + 60 - 10_000] ^= 1
    with opened(slave) as log:
        with pytest.raises(CorruptError):
            log.carry_out(
                Append(0, master[:10_000], None, (bytes(wrong), master[30_000:]))
            )
        assert (end, end) == (log.log().end_offset, log.log().received_offset)
        log.carry_out(Append(end, master[end:30_000], None, (master[30_000:],)))
        assert len(master) == log.log().end_offset


def test_a_copied_property_crc_among_records_without_one_is_taken(
    tmp_path: Path, slave: Path
) -> None:
    """
    A Java master that makes no property CRC has copies of others (A6).
    """
    copied = b"__CRC32#\x010123456789\x02"
    root = tmp_path / "bare"
    with CommitLog(root, segment_size=SEGMENT, property_crc=False) as log:
        fill(log, 20)
        log.append(Message("again", b"body", properties={"k": "v" * 17}))
        fill(log, 20)
        data = b"".join(bytes(block.view) for block in log.blocks())
    data = data.replace(b"k\x01" + b"v" * 17 + b"\x02", copied, 1)
    assert copied in data

    for size in (len(data), 100, 1):
        with opened(slave.with_name(f"slave-{size}")) as log:
            for at in range(0, len(data), size):
                log.carry_out(Append(at, data[at : at + size]))
            assert len(data) == log.log().end_offset


def test_bytes_that_do_not_follow_are_refused(master: bytes, slave: Path) -> None:
    """
    Neither a gap nor an overlap gets in.
    """
    with opened(slave) as log:
        log.carry_out(Append(0, master[:1000]))
        for offset in (999, 1001):
            with pytest.raises(OffsetOutOfRange) as caught:
                log.carry_out(Append(offset, master[:10]))
            assert AckStatus.GAP is ack_status(caught.value)


def test_equal_bytes_are_equal(master: bytes, slave: Path) -> None:
    """
    Over the end of a segment as well.
    """
    with opened(slave) as log:
        log.carry_out(Append(0, master))

        assert log.carry_out(Compare(0, master)) is None
        block = memoryview(master)[SEGMENT - 100 : 2 * SEGMENT + 50]
        assert log.carry_out(Compare(SEGMENT - 100, block)) is None


def test_the_first_other_byte_names_the_record_end_below(
    master: bytes, slave: Path
) -> None:
    """
    The record may begin below the bytes that are compared.
    """
    end = record_end(master, 2 * SEGMENT + 5000)
    block = bytearray(master[end + 30 : end + 300])
    block[20] ^= 1
    with opened(slave) as log:
        log.carry_out(Append(0, master))

        assert end == log.carry_out(Compare(end + 30, bytes(block)))
        block[20] ^= 1
        assert log.carry_out(Compare(end + 30, bytes(block))) is None
        log.carry_out(Cut(end))


def test_an_adopted_table_is_durable(master: bytes, slave: Path) -> None:
    """
    The master's table has the epochs of equal bytes.
    """
    end = record_end(master, 5000)
    table = EpochTable.of([(1, 0), (2, end)])

    def work(log: ReplicaLog) -> None:
        log.carry_out(Append(0, master[:20_000], EpochEntry(1, 0)))
        log.carry_out(Adopt(table))

    kill_while(slave, work)
    with opened(slave) as log:
        assert table == log.log().epochs


def test_a_replica_becomes_the_log_of_a_master(master: bytes, slave: Path) -> None:
    """
    In the same opening, behind its last whole record; queues go on behind the old
    master's.
    """
    whole = record_end(master, 100_000)
    with opened(slave) as replica:
        before = replica.incarnation
        replica.carry_out(Append(0, master[: whole + 20], EpochEntry(1, 0)))
        log = replica.begin_mastership(2)
        offsets = fill(log, 3)
        assert offsets[0] == whole == log.epochs.entries[-1].start_offset
        assert EpochTable.of([(1, 0), (2, whole)]) == replica.log().epochs
        assert before == replica.incarnation
        assert 2 == replica.log().promised_epoch

    with CommitLog(slave, mode="r") as log_read:
        first = log_read.read(offsets[0])
    with Store(slave) as store:
        assert store.queue_range("Topic", first.queue_id)[1] == first.queue_offset + 1
    assert [] == verify_store(slave).damages


def test_a_replica_that_promised_more_begins_no_mastership(slave: Path) -> None:
    """
    B6: another master was accepted since.
    """
    with opened(slave) as replica:
        replica.carry_out(Promise(5))
        with pytest.raises(FencedError):
            replica.begin_mastership(4)


def test_one_process_at_a_time_holds_a_replica(slave: Path) -> None:
    """
    And a failed opening holds no lock.
    """
    with opened(slave), pytest.raises(LockedError):
        opened(slave)
    opened(slave).close()


def test_closing_again_is_fine(slave: Path) -> None:
    """
    A context manager that was closed before ends quietly.
    """
    with opened(slave) as log:
        log.close()


def test_each_refusal_has_its_word_for_the_master() -> None:
    """
    Refusals of our disk are OSErrors, the more special ones before the others.
    """
    assert AckStatus.DISK_FULL is ack_status(FullError("full"))
    assert AckStatus.POISONED is ack_status(PoisonedError("poisoned"))
    assert AckStatus.GAP is ack_status(StorageError("refused"))
