"""
What the recorded processes do: one function for each story, run as a script.

A story with a ``prepare_`` of its name begins in the store that it made, which
is on the disk for sure. The order within a story is what a crash is put into.
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
from crash.teller import SEGMENT_SIZE, Teller

from pystore.controller.identity.store import IdentityStore
from pystore.rocketmq.identity_file import BrokerIdentity, TemporaryIdentity


def prepare_some(teller: Teller) -> None:
    """A store with a few synced records, closed cleanly."""
    teller.open()
    teller.append(3)
    teller.append(2, topic="U")
    teller.close()


def prepare_segments(teller: Teller) -> None:
    """Three segments and a piece, an epoch in each, closed cleanly."""
    teller.open()
    for epoch in (1, 2, 3):
        teller.begin_epoch(epoch)
        for _ in range(6):
            teller.append(4, size=500)
    teller.append(3, topic="U")
    teller.close()


def first_start(teller: Teller) -> None:
    """Nothing at all becomes a store."""
    teller.open()
    teller.append(2)
    teller.append(1, ack="leader-synced")
    teller.close()


def append(teller: Teller) -> None:
    """All ways in, with and without sync."""
    teller.open()
    teller.append()
    teller.append(ack="leader-synced")
    teller.append(5, size=900)
    teller.append_columns(4, size=700)
    teller.sync()
    teller.keep()
    teller.append(2, ack="leader-synced", topic="U")
    teller.append()
    teller.close()


def roll(teller: Teller) -> None:
    """Several segments, synced late, then each."""
    teller.open()
    for _ in range(6):
        teller.append(4, size=1100)
    teller.append_columns(30, size=600)
    teller.sync()
    for _ in range(4):
        teller.append(3, size=1500, ack="leader-synced")
    teller.keep()
    teller.append(3, size=1500)


def cut(teller: Teller) -> None:
    """Within the segment, over segments, below what was synced and above it."""
    teller.open()
    starts = teller.starts()
    teller.append(3)
    teller.cut(teller.starts()[-2])
    teller.append(2, ack="leader-synced")
    teller.cut(starts[len(starts) // 2])
    teller.append(2)
    teller.append(ack="leader-synced")
    teller.begin_epoch(9)
    teller.append(4, size=600)
    teller.cut(starts[5])
    teller.append(ack="leader-synced")
    teller.cut(0)
    teller.append(2)
    teller.close()


def cut_at_bases(teller: Teller) -> None:
    """A cut exactly where a segment begins, and one at the end."""
    teller.open()
    teller.cut(teller.log.end_offset)
    teller.append(2)
    teller.cut(2 * SEGMENT_SIZE)
    teller.append(2)
    teller.sync()
    teller.cut(SEGMENT_SIZE)
    teller.append(ack="leader-synced")


def clean(teller: Teller) -> None:
    """Closed and opened, with and without appends."""
    teller.open()
    teller.close()
    teller.open()
    teller.append()
    teller.close()
    teller.open()
    teller.append(ack="leader-synced")


def epochs(teller: Teller) -> None:
    """Masterships: with records, empty ones, cut ones."""
    teller.open()
    teller.begin_epoch(1)
    teller.append(2, ack="leader-synced")
    before = teller.log.end_offset
    teller.begin_epoch(2)
    teller.begin_epoch(3)
    teller.append(2)
    teller.cut(before)
    teller.begin_epoch(7)
    teller.append(ack="leader-synced")
    teller.close()


def exports(teller: Teller) -> None:
    """An id is applied for, is another's, the next one is applied for and given."""
    teller.open()
    store = IdentityStore(teller.log.writer)
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
        teller.begin("identify")
        verb()
        teller.done("identify")
    assert store.read() == second.identity
    teller.append(ack="leader-synced")
    teller.close()


def retention(teller: Teller) -> None:
    """Segments go from the front, one and then several."""
    teller.open()
    teller.delete_before(SEGMENT_SIZE)
    teller.append(2, ack="leader-synced")
    teller.delete_before(teller.log.end_offset)
    teller.append(2)
    teller.close()


def prepare_queues(teller: Teller) -> None:
    """A store with consume queues, closed cleanly."""
    store = teller.open_store()
    teller.begin_epoch(1)
    for _ in range(8):
        teller.append(6, size=500)
    store.keep()
    teller.begin_epoch(2)
    teller.append(4, size=500, topic="U")
    teller.close()


def queues(teller: Teller) -> None:
    """Consume queues follow the log: dispatched, kept, cut, retained."""
    teller.open_store()
    teller.append(9)
    teller.keep()
    teller.append(30, ack="leader-synced")
    teller.keep()
    teller.append(3)
    teller.cut(teller.starts()[-5])
    teller.append(3)
    teller.retain(2 * SEGMENT_SIZE)
    teller.append(2, ack="leader-synced")
    teller.close()


def seal(teller: Teller) -> None:
    """Sealed segments, and a cut that takes a seal along."""
    teller.open_store()
    for _ in range(6):
        teller.keep()
    teller.append(2)
    teller.cut(SEGMENT_SIZE)
    teller.append(30, size=400, ack="leader-synced")
    for _ in range(3):
        teller.keep()


def threads(teller: Teller) -> None:
    """Appends of several threads, synced together."""
    teller.open()

    def run(ack: str) -> None:
        for number in range(4):
            teller.append(1 + number, size=400, ack=ack)

    acks = ("leader", "leader-synced", "leader-synced")
    running = [threading.Thread(target=run, args=(ack,)) for ack in acks]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    teller.close()


def slave(teller: Teller) -> None:
    """A slave writes its master's bytes as they come, in pieces of any size."""
    teller.open()
    start = teller.log.end_offset
    teller.append(12, size=400)
    teller.append_columns(30, size=600)
    views = [bytes(block.view) for block in teller.log.blocks(start)]
    teller.cut(start)
    sent = b"".join(views)
    for at in range(0, len(sent), 1700):
        teller.append_raw(start + at, sent[at : at + 1700])
        if at % 3 == 0:
            teller.sync()
        if at % 7 == 0:
            teller.keep()
    teller.append(2, ack="leader-synced")
    teller.close()


def resync(teller: Teller) -> None:
    """A replica is emptied, begins where its master's log does, and is filled again."""
    teller.open()
    teller.append(12, size=400)
    teller.append_columns(70, size=600)
    teller.sync()
    base = 2 * SEGMENT_SIZE
    views = [bytes(block.view) for block in teller.log.blocks(base)]
    teller.cut(0)
    teller.begin_at(SEGMENT_SIZE)
    # The master has deleted one more meanwhile.
    teller.begin_at(base)
    teller.begin_epoch(9)
    sent = b"".join(views)
    for at in range(0, len(sent), 1700):
        teller.append_raw(base + at, sent[at : at + 1700])
        if at % 3 == 0:
            teller.sync()
        if at % 7 == 0:
            teller.keep()
    teller.append(2, ack="leader-synced")
    teller.close()


def loss(teller: Teller) -> None:
    """Promised bytes are bad, and given up."""
    teller.open(accept_loss=True)
    teller.append(ack="leader-synced")
    teller.close()


def poison(teller: Teller) -> None:
    """A sync of the log fails once, then the process is killed."""
    teller.open()
    teller.append(2, ack="leader-synced")
    teller.append(3)
    teller.fail_next_sync("/commitlog/", errno.EIO)
    teller.begin("sync")
    try:
        teller.log.sync()
    except OSError as error:
        print(type(error).__name__)
    os.kill(os.getpid(), signal.SIGKILL)


def again(teller: Teller) -> None:
    """Whatever was before: open, append, sync, close."""
    teller.open()
    teller.append(ack="leader-synced")
    teller.append()
    teller.close()


if __name__ == "__main__":
    name, store, *boot_ids = sys.argv[1:]
    with same_boot("".join(boot_ids)):
        globals()[name](Teller(Path(store), f"{name}{os.getpid()}"))
