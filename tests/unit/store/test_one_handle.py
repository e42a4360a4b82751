"""
A writer has one handle on its store: no other path, file or file system takes over.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from lib.command_line import run
from lib.spark.verify_job import run_here
from lib.store.proc_locks import locks_below
from lib.store.stores import from_other

import pystore
from pystore import (
    CommitLog,
    Message,
    Retention,
    Route,
    Store,
    arrow_reader,
    open_log,
    open_store,
)
from pystore.cli import main
from pystore.core.options import AckName
from pystore.errors import (
    FormatError,
    LockedError,
    NotAStoreError,
    PoisonedError,
    PystoreError,
    StorageError,
)
from pystore.message.columns import gather_columns
from pystore.spark.verify.run import verify_stores
from pystore.verify import verify_store

SEGMENT = 1 << 16
BODY = bytes(9000)


def fill(log: CommitLog, count: int, ack: AckName = "leader") -> None:
    """
    Appends so many records; seven fill a segment.
    """
    for number in range(count):
        log.append(Message("T", b"%d " % number + BODY), ack=ack)


def fill_for_ever(log: CommitLog) -> None:
    """
    Appends until an append raises.
    """
    fill(log, 1 << 62)


def count(root: Path) -> int:
    """
    The records of a store, which must open for writing.
    """
    with CommitLog(root) as log:
        return sum(len(rows) for rows in log)


def test_a_changed_working_directory_leads_to_no_other_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Both stores roll after the change, and each has its own records.
    """
    logs = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        logs.append(CommitLog("store", segment_size=SEGMENT))
    fill(logs[1], 30, "leader-synced")
    fill(logs[0], 20, "leader-synced")
    monkeypatch.chdir("/")
    for log in logs:
        fill(log, 10)
        log.close()

    assert 30 == count(tmp_path / "a" / "store")
    assert 40 == count(tmp_path / "b" / "store")


def test_a_reader_with_a_relative_path_goes_on_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Also in segments that it opens later.
    """
    with open_store(tmp_path / "store", segment_size=SEGMENT) as store:
        fill(store.log, 20)
        monkeypatch.chdir(tmp_path)
        with CommitLog("store", mode="r") as reader:
            monkeypatch.chdir("/")
            fill(store.log, 20)
            assert 40 == sum(len(rows) for rows in reader)


def test_a_file_with_the_name_of_the_next_segment_is_not_replaced(
    tmp_path: Path,
) -> None:
    """
    Another program's segment; the log says so at each append until it is gone.
    """
    next_one = tmp_path / "store" / "commitlog" / f"{SEGMENT:020}"
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        fill(log, 7)
        next_one.write_bytes(b"of another program")
        for _ in range(2):
            with pytest.raises(StorageError, match="another program made a file"):
                fill(log, 1)
        assert b"of another program" == next_one.read_bytes()
        next_one.unlink()
        fill(log, 1)
    assert 8 == count(tmp_path / "store")


def test_a_renamed_store_is_read_on_and_written_no_more(tmp_path: Path) -> None:
    """
    Its segments are found through the directory that was opened.
    """
    root, moved = tmp_path / "store", tmp_path / "moved"
    log = CommitLog(root, segment_size=SEGMENT, flush_interval_ms=0)
    fill(log, 30, "leader-synced")
    root.rename(moved)
    CommitLog(root, segment_size=SEGMENT).close()
    before = sorted(path.name for path in (root / "commitlog").iterdir())

    assert 30 == sum(len(rows) for rows in log)
    for call in (log.sync, log.keep, lambda: log.cut(0), lambda: fill(log, 9)):
        with pytest.raises(PoisonedError, match="close it"):
            call()
    with pytest.raises(PoisonedError, match=r"took the place|removed or ren"):
        log.close()
    assert before == sorted(path.name for path in (root / "commitlog").iterdir())
    assert count(moved) >= 30
    assert 0 == count(root)


@pytest.mark.parametrize(
    "way", ["synced append", "sync", "roll", "keep", "cut", "delete", "epoch"]
)
def test_a_lost_lock_is_noticed_by_the_next(tmp_path: Path, way: str) -> None:
    """
    Each call that writes more than one append, and it changes nothing then.
    """
    root = tmp_path / "store"
    log = CommitLog(root, segment_size=SEGMENT, flush_interval_ms=0)
    fill(log, 20, "leader-synced")
    names = sorted(os.listdir(root / "commitlog"))
    (root / "lock").unlink()
    calls: dict[str, Callable[[], object]] = {
        "synced append": lambda: fill(log, 1, "leader-synced"),
        "sync": log.sync,
        "roll": log.writer.log.roll,
        "keep": log.keep,
        "cut": lambda: log.cut(0),
        "delete": lambda: log.delete_before(log.end_offset),
        "epoch": lambda: log.begin_epoch(1),
    }
    with pytest.raises(PoisonedError, match="the lock or its directory was removed"):
        calls[way]()
    with pytest.raises(PoisonedError, match="the lock or its directory was removed"):
        fill(log, 1)
    with pytest.raises(PoisonedError):
        log.close()

    assert names == sorted(os.listdir(root / "commitlog"))
    assert (root / "abort").exists()
    # What raised may be there: written, but never called synced.
    assert 20 + (way == "synced append") == count(root)


def test_the_flusher_notices_a_lost_lock(tmp_path: Path) -> None:
    """
    Half a second later, without a call, where something is to be synced.
    """
    root = tmp_path / "store"
    log = CommitLog(root, segment_size=SEGMENT, flush_interval_ms=1)
    (root / "lock").unlink()
    with pytest.raises(PoisonedError):
        fill_for_ever(log)
    with pytest.raises(PoisonedError):
        log.close()


SHARED = ["lock", "meta/live", "meta/lmdb/data.mdb", f"commitlog/{SEGMENT:020}"]


@pytest.mark.parametrize("name", SHARED)
def test_a_file_that_two_stores_share_is_refused_with_what_to_do(
    tmp_path: Path, name: str
) -> None:
    """
    A snapshot by hard links is the original, until each has files of its own.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 10)
    os.link(root / name, tmp_path / "link")

    with pytest.raises(NotAStoreError, match="has 2 names, so another store shares"):
        CommitLog(root)
    (tmp_path / "link").unlink()
    assert 10 == count(root)


def test_a_copy_by_hard_links_changes_nothing_of_the_original(tmp_path: Path) -> None:
    """
    Neither opens, and after the files were copied as the errors say both do.
    """
    root, copy = tmp_path / "store", tmp_path / "copy"
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 20)
    shutil.copytree(root, copy, copy_function=os.link)

    for path in (root, copy):
        with pytest.raises(NotAStoreError, match="hard links"):
            CommitLog(path)
    (copy / "lock").unlink()
    for name in ("meta/live", "meta/lmdb/data.mdb", f"commitlog/{2 * SEGMENT:020}"):
        shutil.copy2(copy / name, tmp_path / "new")
        (tmp_path / "new").rename(copy / name)
    with CommitLog(copy) as log:
        log.cut(log.read(0).size)
        fill(log, 3)
    assert 4 == count(copy)
    assert 20 == count(root)


@pytest.mark.parametrize("how", ["cut", "opening"])
def test_a_sealed_segment_of_a_backup_is_copied_before_it_is_cut(
    tmp_path: Path, how: str
) -> None:
    """
    By a running writer, and by an opening that finishes the cut.
    """
    root, backup = tmp_path / "store", tmp_path / "backup"
    log = CommitLog(root, segment_size=SEGMENT)
    fill(log, 20, "leader-synced")
    os.link(root / "commitlog" / f"{0:020}", backup)
    content = backup.read_bytes()
    end = 2 * log.read(0).size
    views = list(log.blocks(0, end))
    if how == "cut":
        log.cut(end)
        fill(log, 3)
        log.close()
    else:
        with log.writer.metastore.change() as change:
            change.intend_cut(end)
        log.writer.stack.close()
        log._is_open = False  # as a killed process: no close follows
        with CommitLog(root) as again:
            assert end == again.end_offset
            fill(again, 3)

    assert 5 == count(root)
    assert content == backup.read_bytes()
    assert content[:end] == b"".join(bytes(block.view) for block in views)
    assert 1 == (root / "commitlog" / f"{0:020}").stat().st_nlink


@pytest.mark.parametrize("name", ["tmp", "seals"])
def test_a_directory_that_a_copy_left_out_is_made_again(
    tmp_path: Path, name: str
) -> None:
    """
    Tools skip empty directories.
    """
    root = tmp_path / "store"
    with open_store(root, segment_size=SEGMENT) as store:
        fill(store.log, 3)
    shutil.rmtree(root / "meta" / name)
    with open_store(root) as store:
        fill(store.log, 10)
        store.keep()

    assert (root / "meta" / name).is_dir()
    assert 13 == count(root)


def test_a_log_on_another_file_system_rolls(tmp_path: Path, other_path: Path) -> None:
    """
    Temporaries of segments are on theirs, in a directory that RocketMQ ignores.
    """
    root = tmp_path / "store"
    root.mkdir()
    (root / "commitlog").symlink_to(other_path)
    with open_store(root, segment_size=SEGMENT) as store:
        fill(store.log, 20)
    (other_path / ".pystore-tmp" / "left").write_bytes(b"by a killed process")
    assert 20 == count(root)
    assert [] == os.listdir(other_path / ".pystore-tmp")
    assert 20 == verify_store(root).records


SMALL = [
    "abort",
    "checkpoint",
    "brokerIdentity",
    "epochFileCheckpoint",
    "lock",
    "meta/live",
    "meta/lmdb/data.mdb",
    "meta/lmdb/lock.mdb",
    "commitlog/" + "0" * 20,
    f"commitlog/{SEGMENT:020}",
    "consumequeue/T/0/" + "0" * 20,
    f"meta/seals/{0:020}.seal",
]


@pytest.mark.parametrize("kind", ["pipe", "directory"])
@pytest.mark.parametrize("name", SMALL)
def test_a_pipe_or_directory_in_place_of_a_file_is_not_waited_for(
    tmp_path: Path, name: str, kind: str
) -> None:
    """
    Opening, reading, verifying and inspecting end, with an error of ours or none.
    """
    root = tmp_path / "store"
    with open_store(root, segment_size=SEGMENT) as store:
        fill(store.log, 10)
        store.keep()
    path = root / name
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path) if kind == "pipe" else path.mkdir()

    script = """
import sys
from pathlib import Path
import pystore
from pystore.verify import verify_store
calls = {
    "inspect": lambda root: pystore.inspect(root),
    "read": lambda root: sum(len(r) for r in pystore.CommitLog(root, mode="r")),
    "verify": lambda root: verify_store(root),
    "write": lambda root: pystore.open_store(root).close(),
}
for name, call in calls.items():
    try:
        call(Path(sys.argv[1]))
        print(name, "done")
    except pystore.PystoreError as error:
        print(name, type(error).__name__, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, root],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    print(done.stdout)
    assert "" == done.stderr
    assert 4 == len(done.stdout.splitlines())
    if name.startswith("commitlog") or (name.startswith("meta/l") and kind == "pipe"):
        assert "write done" not in done.stdout


# Every public name that takes or has a store; a new one is a new line here.
CALLS: dict[str, Callable[[Path], object]] = {
    "CommitLog": lambda root: CommitLog(root, mode="r").close(),
    "Store": lambda root: Store(root, mode="r").close(),
    "open_log": lambda root: open_log(root, mode="r").close(),
    "open_store": lambda root: open_store(root, mode="r").close(),
    "inspect": pystore.inspect,
    "verify_store": verify_store,
    "second writer": lambda root: CommitLog(root / "." / ""),
    "info": lambda root: run("info", root),
    "verify": lambda root: run("verify", root),
    "dump": lambda root: run("dump", root),
    "recover": lambda root: (run("recover", root), run("recover", root, "--dry-run")),
    "recovery mend": lambda root: run("recovery", "mend", root, *from_other(root)),
    "epochs": lambda root: run("epochs", root),
    "append": lambda root: run("append", root, "--topic", "T"),
    "compare": lambda root: run("compare", root, root),
    "doctor": lambda root: run("doctor", root),
    "doctor --apply": lambda root: run("doctor", root, "--apply"),
    "salvage": lambda root: run("salvage", root, "--json"),
    "replica": lambda root: run("replica", root, "--master", "127.0.0.1:1"),
    "arrow_reader": lambda root: arrow_reader(root).read_all(),
    "verify_stores": lambda root: verify_stores(run_here, [str(root)]),
}
# The commands of no store, and those that need Spark: their tasks are `arrow_reader`'s
# and those of `verify_stores`.
OTHER_COMMANDS = {
    "admin",
    "broker",
    "controller",
    "demo",
    "ha-status",
    "init-cluster",
    "spark",
}
METHODS: dict[str, Callable[[Any], object] | None] = {
    "append": lambda log: log.append(Message("T", b"body")),
    "append_batch": lambda log: log.append_batch([Message("T", b"body")]),
    "append_columns": lambda log: log.append_columns(gather_columns("T", [b"body"])),
    "append_client_batch": lambda log: log.append_client_batch(Route("T"), b""),
    "sync": lambda log: log.sync(),
    "keep": lambda log: log.keep(),
    "read": lambda log: log.read(0),
    "scan": lambda log: list(log.scan()),
    "scan_past_damage": lambda log: list(log.scan_past_damage()),
    "blocks": lambda log: list(log.blocks()),
    "topic": lambda log: log.topic(0),
    "begin_epoch": lambda log: log.begin_epoch(1),
    "accept_clock": lambda log: log.accept_clock(),
    "cut": lambda log: log.cut(log.end_offset),
    "delete_before": lambda log: log.delete_before(0),
    "before_close": lambda log: log.before_close(lambda: None),
    # The end of a handle, and what other handles and a forked child do with it.
    "close": None,
    "own": None,
    "mark_forked": None,
}
STORE_METHODS: dict[str, Callable[[Any], object] | None] = {
    "dispatch": lambda store: store.dispatch(),
    "keep": lambda store: store.keep(),
    "read": lambda store: store.read("T", 0, 0),
    "read_from": lambda store: list(store.read_from("T", 0, 0, 1)),
    "find_tag": lambda store: list(store.find_tag("T", 0, "a", 0)),
    "offset_at_time": lambda store: store.offset_at_time("T", 0, 0),
    "queue_range": lambda store: store.queue_range("T", 0),
    "cut": lambda store: store.cut(store.log.end_offset),
    "begin_at": lambda store: store.begin_at(store.log.end_offset),
    "retain": lambda store: store.retain(Retention(reserved_hours=1), 0),
    "before_close": lambda store: store.before_close(lambda: None),
    "close": None,
}


def _public(kind: type) -> set[str]:
    return {
        name
        for name in dir(kind)
        if not name.startswith("_") and callable(getattr(kind, name))
    }


def test_no_public_call_gives_a_lock_up(tmp_path: Path) -> None:
    """
    Two looks at the system's locks, one before and one after each call: on ``lock``,
    and on LMDB's file, by every other handle and command in this process.
    """
    root = tmp_path / "store"
    with Store(root, segment_size=SEGMENT) as store:
        fill(store.log, 10)
        held = locks_below(root)
        assert {"lock", "meta/lmdb/lock.mdb"} == set(held)
        assert "OFDLCK WRITE 0 0" in held["lock"]
        looks = {}
        for name, call in CALLS.items():
            with contextlib.suppress(LockedError):
                call(root)
            looks[name] = locks_below(root)
        handles: Any = ((METHODS, store.log), (STORE_METHODS, store))
        for table, handle in handles:
            for name, method in table.items():
                if method is not None:
                    with contextlib.suppress(PystoreError):
                        method(handle)
                    looks[name] = locks_below(root)
        assert {} == {name: found for name, found in looks.items() if found != held}
    assert {} == locks_below(root)
    assert set() == _public(CommitLog) - set(METHODS)
    assert set() == _public(Store) - set(STORE_METHODS) - set(METHODS)
    commands = set(main.list_commands(click.Context(main)))
    assert set() == commands - {name.split()[0] for name in CALLS} - OTHER_COMMANDS


def test_an_inspection_in_the_writers_process_lets_no_other_process_hang_it(
    tmp_path: Path,
) -> None:
    """
    LMDB's mutexes were made anew under the writer by the next process that looked.
    """
    root = tmp_path / "store"
    looking = [sys.executable, "-m", "pystore", "info", str(root)]
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 3)
        for round_number in range(3):
            pystore.inspect(root)
            # What a copy of the store's files does as well.
            (root / "meta" / "lmdb" / "lock.mdb").read_bytes()
            with subprocess.Popen(looking, stdout=subprocess.DEVNULL) as other:
                epoch = round_number * 10**6
                while other.poll() is None:
                    epoch += 1
                    log.begin_epoch(epoch)
                    log.keep()
                assert 0 == other.returncode
            worker = threading.Thread(target=log.begin_epoch, args=(epoch + 1,))
            worker.start()
            worker.join(30)
            assert not worker.is_alive()


def test_a_format_error_is_raised_for_a_pipe(tmp_path: Path) -> None:
    """
    With the path, and what to do.
    """
    CommitLog(tmp_path / "store").close()
    (tmp_path / "store" / "checkpoint").unlink()
    os.mkfifo(tmp_path / "store" / "checkpoint")

    with pytest.raises(FormatError, match="checkpoint: not a regular file: move it"):
        CommitLog(tmp_path / "store")
