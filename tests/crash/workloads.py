"""
The workloads of the recorded processes: one function each, run as a script.

A workload with a function ``prepare_`` begins in the store of that function, which is
on disk. A crash is put between any two effects of a workload.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path

from crash.boots import same_boot
from crash.note_writer import SEGMENT_SIZE, NoteWriter

from pystore.controller.identity.store import IdentityStore
from pystore.core.options import AckName
from pystore.rocketmq.identity_file import BrokerIdentity, TemporaryIdentity


def prepare_some(writer: NoteWriter) -> None:
    """A store with a few synced records, closed cleanly."""
    writer.open()
    writer.append(3)
    writer.append(2, topic="U")
    writer.close()


def prepare_segments(writer: NoteWriter) -> None:
    """Three segments and a piece, an epoch in each, closed cleanly."""
    writer.open()
    for epoch in (1, 2, 3):
        writer.begin_epoch(epoch)
        for _ in range(6):
            writer.append(4, size=500)
    writer.append(3, topic="U")
    writer.close()


def first_start(writer: NoteWriter) -> None:
    """A missing directory becomes a store."""
    writer.open()
    writer.append(2)
    writer.append(1, ack="leader-synced")
    writer.close()


def append(writer: NoteWriter) -> None:
    """Each kind of append, with and without sync."""
    writer.open()
    writer.append()
    writer.append(ack="leader-synced")
    writer.append(5, size=900)
    writer.append_columns(4, size=700)
    writer.sync()
    writer.keep()
    writer.append(2, ack="leader-synced", topic="U")
    writer.append()
    writer.close()


def roll(writer: NoteWriter) -> None:
    """Several segments, synced late, then each."""
    writer.open()
    for _ in range(6):
        writer.append(4, size=1100)
    writer.append_columns(30, size=600)
    writer.sync()
    for _ in range(4):
        writer.append(3, size=1500, ack="leader-synced")
    writer.keep()
    writer.append(3, size=1500)


def cut(writer: NoteWriter) -> None:
    """Within the segment, over segments, below what was synced and above it."""
    writer.open()
    starts = writer.starts()
    writer.append(3)
    writer.cut(writer.starts()[-2])
    writer.append(2, ack="leader-synced")
    writer.cut(starts[len(starts) // 2])
    writer.append(2)
    writer.append(ack="leader-synced")
    writer.begin_epoch(9)
    writer.append(4, size=600)
    writer.cut(starts[5])
    writer.append(ack="leader-synced")
    writer.cut(0)
    writer.append(2)
    writer.close()


def cut_at_bases(writer: NoteWriter) -> None:
    """A cut exactly where a segment begins, and one at the end."""
    writer.open()
    writer.cut(writer.log.end_offset)
    writer.append(2)
    writer.cut(2 * SEGMENT_SIZE)
    writer.append(2)
    writer.sync()
    writer.cut(SEGMENT_SIZE)
    writer.append(ack="leader-synced")


def clean(writer: NoteWriter) -> None:
    """Closed and opened, with and without appends."""
    writer.open()
    writer.close()
    writer.open()
    writer.append()
    writer.close()
    writer.open()
    writer.append(ack="leader-synced")


def epochs(writer: NoteWriter) -> None:
    """Masterships: with records, empty ones, cut ones."""
    writer.open()
    writer.begin_epoch(1)
    writer.append(2, ack="leader-synced")
    before = writer.log.end_offset
    writer.begin_epoch(2)
    writer.begin_epoch(3)
    writer.append(2)
    writer.cut(before)
    writer.begin_epoch(7)
    writer.append(ack="leader-synced")
    writer.close()


def exports(writer: NoteWriter) -> None:
    """An id is applied for, is another's, the next one is applied for and given."""
    writer.open()
    store = IdentityStore(writer.log.writer)
    first, second = (
        TemporaryIdentity(BrokerIdentity("c", "b", who), "code") for who in (1, 2)
    )
    verbs = [
        partial(store.write_temporary, first),
        partial(store.delete_temporary, first),
        partial(store.write_temporary, second),
        partial(store.confirm, second.identity),
    ]
    for verb in verbs:
        writer.begin("identify")
        verb()
        writer.done("identify")
    assert store.read() == second.identity
    writer.append(ack="leader-synced")
    writer.close()


def retention(writer: NoteWriter) -> None:
    """Segments go from the front, one and then several."""
    writer.open()
    writer.delete_before(SEGMENT_SIZE)
    writer.append(2, ack="leader-synced")
    writer.delete_before(writer.log.end_offset)
    writer.append(2)
    writer.close()


def prepare_queues(writer: NoteWriter) -> None:
    """A store with consume queues, closed cleanly."""
    store = writer.open_store()
    writer.begin_epoch(1)
    for _ in range(8):
        writer.append(6, size=500)
    store.keep()
    writer.begin_epoch(2)
    writer.append(4, size=500, topic="U")
    writer.close()


def queues(writer: NoteWriter) -> None:
    """Consume queues follow the log: dispatched, kept, cut, retained."""
    writer.open_store()
    writer.append(9)
    writer.keep()
    writer.append(30, ack="leader-synced")
    writer.keep()
    writer.append(3)
    writer.cut(writer.starts()[-5])
    writer.append(3)
    writer.retain(2 * SEGMENT_SIZE)
    writer.append(2, ack="leader-synced")
    writer.close()


def seal(writer: NoteWriter) -> None:
    """Sealed segments, and a cut that takes a seal along."""
    writer.open_store()
    for _ in range(6):
        writer.keep()
    writer.append(2)
    writer.cut(SEGMENT_SIZE)
    writer.append(30, size=400, ack="leader-synced")
    for _ in range(3):
        writer.keep()


def fill(writer: NoteWriter) -> None:
    """A log that began late is filled downwards, while appends go on."""
    store = writer.open_store()
    writer.begin_epoch(5)
    writer.append_columns(36, size=900)
    writer.sync()
    writer.keep()
    folder = writer.root / "commitlog"
    copies = {int(path.name): path.read_bytes() for path in folder.iterdir()}
    epochs = writer.log.epochs
    writer.retain(SEGMENT_SIZE)
    missing = [base for base in sorted(copies) if base < writer.log.min_offset]
    assert len(missing) > 1
    for base in reversed(missing):
        writer.install_before(base, copies[base], epochs)
        writer.append(2, ack="leader-synced")
    assert epochs == store.log.epochs
    writer.close()


def mend(writer: NoteWriter) -> None:
    """A segment is patched in place, and another one replaced."""
    writer.open()
    folder = writer.root / "commitlog"
    copies = {int(path.name): path.read_bytes() for path in folder.iterdir()}
    writer.patch(SEGMENT_SIZE, copies[SEGMENT_SIZE])
    writer.append(2, ack="leader-synced")
    writer.install_within(0, copies[0])
    writer.append(2)
    writer.close()


def threads(writer: NoteWriter) -> None:
    """Appends of several threads, synced together."""
    writer.open()

    def run(ack: AckName) -> None:
        for number in range(4):
            writer.append(1 + number, size=400, ack=ack)

    acks: tuple[AckName, ...] = ("leader", "leader-synced", "leader-synced")
    running = [threading.Thread(target=run, args=(ack,)) for ack in acks]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    writer.close()


def slave(writer: NoteWriter) -> None:
    """A slave writes the bytes of its master in pieces of any size."""
    writer.open()
    start = writer.log.end_offset
    writer.append(12, size=400)
    writer.append_columns(30, size=600)
    views = [bytes(block.view) for block in writer.log.blocks(start)]
    writer.cut(start)
    sent = b"".join(views)
    for at in range(0, len(sent), 1700):
        writer.append_raw(start + at, sent[at : at + 1700])
        if at % 3 == 0:
            writer.sync()
        if at % 7 == 0:
            writer.keep()
    writer.append(2, ack="leader-synced")
    writer.close()


def resync(writer: NoteWriter) -> None:
    """A replica is emptied, begins where its master's log does, and is filled again."""
    writer.open()
    writer.append(12, size=400)
    writer.append_columns(70, size=600)
    writer.sync()
    base = 2 * SEGMENT_SIZE
    views = [bytes(block.view) for block in writer.log.blocks(base)]
    writer.cut(0)
    writer.begin_at(SEGMENT_SIZE)
    # The master has deleted one more meanwhile.
    writer.begin_at(base)
    writer.begin_epoch(9)
    sent = b"".join(views)
    for at in range(0, len(sent), 1700):
        writer.append_raw(base + at, sent[at : at + 1700])
        if at % 3 == 0:
            writer.sync()
        if at % 7 == 0:
            writer.keep()
    writer.append(2, ack="leader-synced")
    writer.close()


def loss(writer: NoteWriter) -> None:
    """Promised bytes are bad, and given up."""
    writer.open(accept_loss=True)
    writer.append(ack="leader-synced")
    writer.close()


def poison(writer: NoteWriter) -> None:
    """A sync of the log fails once, then the process is killed."""
    writer.open()
    writer.append(2, ack="leader-synced")
    writer.append(3)
    writer.fail_next_sync("/commitlog/", errno.EIO)
    writer.begin("sync")
    try:
        writer.log.sync()
    except OSError as error:
        print(type(error).__name__)
    os.kill(os.getpid(), signal.SIGKILL)


def again(writer: NoteWriter) -> None:
    """Whatever was before: open, append, sync, close."""
    writer.open()
    writer.append(ack="leader-synced")
    writer.append()
    writer.close()


if __name__ == "__main__":
    name, store, *boot_ids = sys.argv[1:]
    with same_boot("".join(boot_ids)):
        globals()[name](NoteWriter(Path(store), f"{name}{os.getpid()}"))
