"""
What an opening says to every kind of bad store: what, where, what to do.

The command line's side is in test_cli_bad_input, disks that are full, broken or
read-only are in tests/crash, and Java's side is in tests/interop.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from lib.store.stores import SEGMENT, bodies, fill, kill_while, message

from pystore import (
    CommitLog,
    CorruptError,
    FormatError,
    InvalidError,
    Message,
    NotAStoreError,
    PystoreError,
    inspect,
)

RECORDS = 700  # in three segments


def segment(root: Path, number: int = 0) -> Path:
    """
    The file of a segment.
    """
    return root / "commitlog" / f"{number * SEGMENT:020d}"


def overwrite(path: Path, at: int, data: bytes) -> None:
    """
    Put other bytes into a file.
    """
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def offset_of(root: Path, number: int) -> int:
    """
    Where a record is.
    """
    with CommitLog(root, mode="r") as log:
        return [int(at) for rows in log.scan() for at in rows["offset"]][number]


def claim_another_offset(root: Path) -> None:
    """
    The third record has the offset of the fourth.
    """
    third, fourth = offset_of(root, 3), offset_of(root, 4)
    overwrite(segment(root), third + 28, struct.pack(">Q", fourth))


def become_a_file(root: Path) -> None:
    """
    A file where the directory was.
    """
    shutil.rmtree(root)
    root.write_text("x")


def lose_the_log(root: Path) -> None:
    """
    The small files of the root alone.
    """
    shutil.rmtree(root / "meta")
    shutil.rmtree(root / "commitlog")


def digest(root: Path) -> str:
    """
    Of every file of a store.
    """
    found = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.name != "lock.mdb":  # LMDB's table of readers
            found.update(f"{path.relative_to(root)} ".encode() + path.read_bytes())
    return found.hexdigest()


Case = tuple[Callable[[Path], object], type[PystoreError], str]

# What was done to a store that its writer left by SIGKILL; what opening it for
# writing raises; and the whole message, with {root} for the store.
REFUSED: dict[str, Case] = {
    "no directory": (
        shutil.rmtree,
        NotAStoreError,
        "{root}: no such directory: check the path",
    ),
    "not a directory": (
        become_a_file,
        NotAStoreError,
        "{root}: not a directory: give the root of a store",
    ),
    "something else": (
        lose_the_log,
        NotAStoreError,
        "{root}: not a store: it has no commitlog/ and holds 'abort': give the root of "
        "a store, or an empty directory",
    ),
    "first segment cut short": (
        lambda root: os.truncate(segment(root, 0), 1000),
        NotAStoreError,
        "{root}/commitlog/00000000000000000000: 1000 bytes, a segment here has 65536: "
        "was it cut short or is the segment size another?",
    ),
    "middle segment cut short": (
        lambda root: os.truncate(segment(root, 1), SEGMENT - 1),
        NotAStoreError,
        "{root}/commitlog/00000000000000065536: 65535 bytes, a segment here has 65536: "
        "was it cut short or is the segment size another?",
    ),
    "middle segment empty": (
        lambda root: os.truncate(segment(root, 1), 0),
        NotAStoreError,
        "{root}/commitlog/00000000000000065536: 0 bytes, a segment here has 65536: was "
        "it cut short or is the segment size another?",
    ),
    "non-numeric name": (
        lambda root: (root / "commitlog" / "backup.old").touch(),
        NotAStoreError,
        "{root}/commitlog/backup.old: not the name of a segment (20 digits): move it "
        "out of the commit log",
    ),
    "number of another length": (
        lambda root: (root / "commitlog" / "65536").touch(),
        NotAStoreError,
        "{root}/commitlog/65536: not the name of a segment (20 digits): move it out of "
        "the commit log",
    ),
    "base between two": (
        lambda root: (root / "commitlog" / f"{77:020d}").write_bytes(bytes(SEGMENT)),
        NotAStoreError,
        "{root}/commitlog/00000000000000000077: no segment of 65536 bytes begins "
        "there: move it away",
    ),
    "gap": (
        lambda root: segment(root, 1).unlink(),
        NotAStoreError,
        "{root}/commitlog: segment 00000000000000065536 is missing before "
        "00000000000000131072, which is not empty: restore it from a replica or a "
        "backup; until then the store opens for reading only",
    ),
    "garbage in the middle": (
        lambda root: overwrite(segment(root), offset_of(root, 9), b"\xa5" * 300),
        CorruptError,
        "{root}: damage at offset 2016: there is no record, but the "
        "published end is 158418 (rule A6): restore it from a replica, read what is "
        "left with `pystore dump`, or give it up with `pystore recover --accept-loss`",
    ),
    "zeros in the middle": (
        lambda root: overwrite(segment(root), offset_of(root, 9), bytes(300)),
        CorruptError,
        "{root}: damage at offset 2016: nothing was written here, but the published "
        "end is 158418 (rule A6): restore it from a replica, read what is left with "
        "`pystore dump`, or give it up with `pystore recover --accept-loss`",
    ),
    "another offset": (
        claim_another_offset,
        CorruptError,
        "{root}: damage at offset 672: the record claims another offset, but the "
        "published end is 158418 (rule A6): restore it from a replica, read what is "
        "left with `pystore dump`, or give it up with `pystore recover --accept-loss`",
    ),
    "empty database": (
        lambda root: os.truncate(root / "meta/lmdb/data.mdb", 0),
        FormatError,
        "{root}/meta/lmdb/data.mdb: the file is empty, which a new one never is: "
        "restore meta/ from a backup, or move meta/ away and open again: the log "
        "stays, RocketMQ's rules then decide where it ends",
    ),
    "garbage for a database": (
        lambda root: (root / "meta/lmdb/data.mdb").write_bytes(b"garbage" * 4000),
        FormatError,
        "{root}/meta/lmdb/data.mdb: it does not begin as a file of LMDB 0.9: restore "
        "meta/ from a backup, or move meta/ away and open again: the log stays, "
        "RocketMQ's rules then decide where it ends",
    ),
    "database gone": (
        lambda root: (root / "meta/lmdb/data.mdb").unlink(),
        FormatError,
        "{root}/meta/lmdb/data.mdb: the file is missing: restore meta/ from a backup, "
        "or move meta/ away and open again: the log stays, RocketMQ's rules then "
        "decide where it ends",
    ),
    "live page gone": (
        lambda root: (root / "meta/live").unlink(),
        NotAStoreError,
        "{root}/meta/live: no live page: make it again with "
        "`pystore doctor STORE --apply`",
    ),
    "live page cut short": (
        lambda root: os.truncate(root / "meta/live", 100),
        NotAStoreError,
        "{root}/meta/live: 100 bytes, a live page has 4096: make it again with "
        "`pystore doctor STORE --apply`",
    ),
    "garbage for epochs": (
        lambda root: (root / "epochFileCheckpoint").write_bytes(b"\xff\xfe"),
        FormatError,
        "{root}/epochFileCheckpoint: byte 0 is not UTF-8, and no .bak: restore it from "
        "a replica's copy, or remove it and its .bak to keep the table that meta/ has",
    ),
    "half of the epochs": (
        lambda root: (root / "epochFileCheckpoint").write_bytes(b"2\n123\n1-0\n"),
        FormatError,
        "{root}/epochFileCheckpoint: 1 entries, but line 1 has 2, and no .bak: "
        "restore it from a replica's copy, or remove it and its .bak to keep the table "
        "that meta/ has",
    ),
    "garbage for an identity": (
        lambda root: (root / "brokerIdentity").write_bytes(b"one#two"),
        FormatError,
        "{root}/brokerIdentity: b'one#two' is not 3 fields joined with '#': restore "
        "it, or remove it: a store that knows its broker (meta/) writes it anew, any "
        "other registers as a new one",
    ),
    "half of a checkpoint": (
        lambda root: (root / "checkpoint").write_bytes(bytes(2048)),
        FormatError,
        "{root}/checkpoint: 2048 bytes instead of 4096: move it away: recovery then "
        "reads the whole log",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_failed_opening_is_one_line_and_changes_nothing(
    tmp_path: Path, what: str
) -> None:
    """
    The error names the problem, the place and the remedy; nothing was changed.
    """
    root = tmp_path / "store"
    kill_while(root, lambda log: (log.begin_epoch(1), fill(log, RECORDS)))
    spoil, kind, text = REFUSED[what]
    spoil(root)
    before = digest(root)
    with pytest.raises(kind) as caught:
        CommitLog(root, create=what != "no directory")

    assert text.format(root=root) == str(caught.value)
    assert before == digest(root)


@pytest.mark.parametrize("what", [w for w, case in REFUSED.items() if "data" in w])
def test_damage_in_meta_does_not_stop_a_reader(tmp_path: Path, what: str) -> None:
    """
    Every record can be read on a read-only file system.
    """
    root = tmp_path / "store"
    kill_while(root, lambda log: fill(log, RECORDS))
    REFUSED[what][0](root)
    with CommitLog(root, mode="r") as log:
        assert RECORDS == len(bodies(log))


@pytest.mark.parametrize("what", ["live page gone", "live page cut short"])
def test_without_a_live_page_a_reader_scans_for_the_end(
    tmp_path: Path, what: str
) -> None:
    """
    The end of the last whole record, as in a store of RocketMQ.
    """
    root = tmp_path / "store"
    kill_while(root, lambda log: fill(log, RECORDS))
    REFUSED[what][0](root)
    with CommitLog(root, mode="r") as log:
        assert RECORDS == len(bodies(log))


def test_a_segment_that_shrank_is_damage_and_not_foreign(tmp_path: Path) -> None:
    """
    A lone segment of another size than the one it was left with is refused: its
    bytes are not taken for what another program wrote.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 10)
    os.truncate(segment(root), 1000)
    for look in (CommitLog, inspect):
        with pytest.raises(NotAStoreError) as caught:
            look(root)
        assert (
            f"{segment(root)}: 1000 bytes, but 65536 when pystore left it: restore it "
            "from a replica"
        ) == str(caught.value)


def test_a_store_in_no_directory_is_not_made(tmp_path: Path) -> None:
    """
    A wrong path creates no directories.
    """
    with pytest.raises(NotAStoreError, match=r"none: no such directory: create it"):
        CommitLog(tmp_path / "none" / "store")
    assert [] == list(tmp_path.iterdir())


def test_the_error_of_a_reader_that_appends_names_the_mode(tmp_path: Path) -> None:
    """
    The mode is named.
    """
    root = tmp_path / "store"
    kill_while(root, lambda log: fill(log, 1))
    with (
        CommitLog(root, mode="r") as log,
        pytest.raises(InvalidError, match="for reading only: open it with mode 'w'"),
    ):
        log.append(message(1))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((b"T", 5 << 20, {}), "body of 5242880 bytes is too large: at most 4194304"),
        ((b"T" * 128, 0, {}), "topic of 128 bytes is too long: at most 127 "),
        ((b"%RETRY%" + b"T" * 249, 0, {}), "topic of 256 bytes is too long: at most"),
        (
            (b"T", 0, {"a": "x" * 32763}),
            "message 0: the properties would take more than 32767 ",
        ),
        ((b"T", 0, {"a": "x\x01"}), r"property 'a': the value holds '\x01', which "),
        ((b"T", 0, {"a\x02": "x"}), r"property 'a\x02': the name holds '\x02', which"),
        ((b"T", SEGMENT, {}), "message 0: a record of 65"),
    ],
    ids=["body", "topic", "retry", "properties", "separator", "name", "segment"],
)
def test_a_message_that_does_not_fit_changes_nothing(
    tmp_path: Path, arguments: tuple[bytes, int, dict[str, str]], text: str
) -> None:
    """
    The part that is too long, and how long it may be.
    """
    topic, size, properties = arguments
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        with pytest.raises(InvalidError) as caught:
            log.append(Message(topic.decode(), bytes(size), properties=properties))

        assert str(caught.value).startswith(text)
        assert (0, []) == (log.end_offset, log.reader.segments())


INTERRUPTED = """
import sys
from pystore import CommitLog, Message
with CommitLog(sys.argv[1], segment_size=1 << 20) as log:
    number = 0
    try:
        while True:
            log.append(Message("T", number.to_bytes(8, "big") * 50))
            number += 1
            if number == 1000:
                print("go", flush=True)
    except KeyboardInterrupt:
        print(number, flush=True)
"""


def test_ctrl_c_leaves_acknowledged_and_whole_records_only(tmp_path: Path) -> None:
    """
    The append that Ctrl-C interrupted is there as a whole or not at all.
    """
    root = tmp_path / "store"
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, root], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert "go\n" == child.stdout.readline()
        child.send_signal(2)
        acknowledged = int(child.stdout.readline())
    assert 0 == child.returncode
    with CommitLog(root) as log:
        found = bodies(log)

        assert log.recovery.is_clean
        assert len(found) in (acknowledged, acknowledged + 1)
        assert found == [n.to_bytes(8, "big") * 50 for n in range(len(found))]
