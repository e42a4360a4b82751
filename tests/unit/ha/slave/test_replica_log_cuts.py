"""
The log of a slave that is cut or wiped, and what a crash leaves of that.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from lib.ha.slave_logs import kill_while, master_bytes, opened, record_end
from lib.store.stores import SEGMENT, bodies

from pystore.core.log_writer import LogHandle
from pystore.epochs.table import EpochEntry, EpochTable
from pystore.errors import (
    InvalidError,
    OffsetOutOfRange,
    StorageError,
)
from pystore.ha.slave.effects import (
    Append,
    Confirm,
    Cut,
    Wipe,
)
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.metastore.database import MetaStore
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


def test_a_cut_takes_bytes_and_epochs(master: bytes, slave: Path) -> None:
    """
    The log ends there, and so does its history; what follows may be another's.
    """
    first, second = record_end(master, 5000), record_end(master, 90_000)
    with opened(slave) as log:
        log.carry_out(Append(0, master[:second], EpochEntry(1, 0)))
        log.carry_out(Append(second, master[second:200_000], EpochEntry(2, second)))
        log.carry_out(Cut(second))
        assert EpochTable.of([(1, 0)]) == log.log().epochs
        log.carry_out(Cut(first))
        assert (first, first) == (log.log().end_offset, log.log().received_offset)
        log.carry_out(Append(first, master[first:], EpochEntry(3, first)))

    with CommitLog(slave, mode="r") as log_read:
        assert 3000 == len(bodies(log_read))


def test_a_cut_where_the_log_ends_writes_nothing(
    master: bytes, slave: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Every link begins with one, mostly for nothing.
    """
    end = record_end(master, 5000)
    with opened(slave) as log:
        log.carry_out(Append(0, master[:end], EpochEntry(1, 0)))
        with monkeypatch.context() as patched:
            patched.setattr(MetaStore, "change", None)
            log.carry_out(Cut(end))


def test_a_cut_drops_half_a_record(master: bytes, slave: Path) -> None:
    """
    Also where it is all that stands above.
    """
    end = record_end(master, 5000)
    with opened(slave) as log:
        log.carry_out(Append(0, master[: end + 30]))
        log.carry_out(Cut(end))

        assert end == log.log().received_offset


def test_a_cut_inside_a_record_is_refused(master: bytes, slave: Path) -> None:
    """
    Nothing is changed; the log goes on.
    """
    end = record_end(master, 5000)
    with opened(slave) as log:
        log.carry_out(Append(0, master[:end]))
        with pytest.raises(InvalidError):
            log.carry_out(Cut(end - 1))
        with pytest.raises(OffsetOutOfRange):
            log.carry_out(Cut(end + 1))
        log.carry_out(Append(end, master[end:]))


@pytest.mark.parametrize("base", [0, 3 * SEGMENT])
def test_a_wiped_log_begins_wherever_the_next_bytes_do(
    master: bytes, slave: Path, base: int
) -> None:
    """
    Nothing of it is left, not even a queue: the next record may have any place.
    """
    with opened(slave) as log:
        log.carry_out(Append(0, master[:100_000], EpochEntry(1, 0)))
        log.carry_out(Confirm(90_000))
        log.carry_out(Wipe())
        assert log.log().is_empty
        assert EpochTable() == log.log().epochs
        assert (0, 0) == (log.log().flushed_offset, log.log().confirm_offset)
        log.carry_out(Append(base, master[base:], EpochEntry(5, 0)))
        assert (base, len(master)) == (log.log().min_offset, log.log().end_offset)

    with Store(slave, mode="r") as store:
        last = store.queue_range("Topic", 0)[1] - 1
        assert 999 == last == store.read("Topic", 0, last).queue_offset
    assert verify_store(slave).verdict == "whole"


@pytest.mark.parametrize("step", ["cut_publish", "cut_apply", "cut_end"])
@pytest.mark.parametrize("is_wipe", [False, True])
def test_a_kill_in_the_middle_of_a_cut_ends_as_the_cut(
    master: bytes,
    slave: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    is_wipe: bool,
) -> None:
    """
    The next opening finishes it: bytes and epochs above it are gone (A3).
    """
    end = 0 if is_wipe else record_end(master, 90_000)

    def work(log: ReplicaLog) -> None:
        log.carry_out(Append(0, master, EpochEntry(1, 0)))
        log.sync()
        die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
        monkeypatch.setattr(LogHandle, step, die)
        log.carry_out(Wipe() if is_wipe else Cut(end))

    kill_while(slave, work)
    with opened(slave) as log:
        assert (end, end) == (log.log().end_offset, log.log().received_offset)
        assert log.log().epochs == EpochTable.of([] if is_wipe else [(1, 0)])
        log.carry_out(Append(end, master[end:], EpochEntry(2, end)))
    assert verify_store(slave).verdict == "whole"


@pytest.mark.parametrize("effect", ["cut", "wipe", "half a record"])
def test_a_held_view_of_a_replica_that_cuts_keeps_its_bytes(
    master: bytes, slave: Path, effect: str
) -> None:
    """
    The cut succeeds, the process keeps its incarnation, and the log goes on (B14).
    """
    end = record_end(master, 90_000)
    with opened(slave) as log:
        incarnation = log.incarnation
        log.carry_out(Append(0, master[: len(master) - 7]))
        held = log.store.log.reader.acquire(end - 50, 5000)
        first = log.store.log.reader.acquire(0, 500)
        shown = bytes(held), bytes(first)
        match effect:
            case "cut":
                log.carry_out(Cut(end))
            case "wipe":
                log.carry_out(Wipe())
            case _:
                log.begin_mastership(3)
        stands = log.log().received_offset
        if effect != "half a record":
            log.carry_out(Append(stands, bytes(master[stands:])))
            assert len(master) == log.log().end_offset
        assert shown == (bytes(held), bytes(first))
        assert incarnation == log.incarnation
    assert shown == (bytes(held), bytes(first))
    assert verify_store(slave).verdict == "whole"


@pytest.mark.parametrize("is_wiped", [False, True])
@pytest.mark.parametrize("is_made", [False, True])
def test_a_begin_that_the_system_refuses_is_mended(
    master: bytes,
    slave: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_wiped: bool,
    is_made: bool,
) -> None:
    """
    The empty log begins at the next try, in the same incarnation (B14).
    """
    begin, base = LogHandle.begin_at, 3 * SEGMENT

    def refuse(handle: LogHandle, at: int) -> None:
        if is_made:
            begin(handle, at)
        raise StorageError("refused", errno=5)

    with opened(slave) as log:
        incarnation = log.incarnation
        if is_wiped:
            log.carry_out(Append(0, master[:100_000]))
            log.carry_out(Wipe())
        with monkeypatch.context() as patched:
            patched.setattr(LogHandle, "begin_at", refuse)
            with pytest.raises(StorageError):
                log.carry_out(Append(base, master[base:]))
        log.mend()

        log.carry_out(Append(base, master[base:]))
        assert incarnation == log.incarnation
        assert (base, len(master)) == (log.log().min_offset, log.log().end_offset)
    assert verify_store(slave).verdict == "whole"


def test_a_cut_that_the_system_refuses_is_mended(
    master: bytes, slave: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The log takes nothing until the cut was done again, in the same incarnation (B14).
    """
    end = record_end(master, 90_000)
    with opened(slave) as log:
        incarnation = log.incarnation
        log.carry_out(Append(0, master))
        log.mend()  # there is nothing to mend

        def refuse(_: LogHandle) -> None:
            raise StorageError("refused", errno=5)

        with monkeypatch.context() as patched:
            patched.setattr(LogHandle, "cut_apply", refuse)
            with pytest.raises(StorageError):
                log.carry_out(Cut(end))
            with pytest.raises(StorageError):
                log.mend()  # refused again
        log.mend()

        assert incarnation == log.incarnation
        assert (end, end) == (log.log().end_offset, log.log().received_offset)
        log.carry_out(Append(end, master[end:]))
