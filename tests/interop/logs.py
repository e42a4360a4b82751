"""
Opens, fills and reads logs of pystore for these tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from interop.messages import STORE_HOST

from pystore.core.log_reader import LogReader
from pystore.core.log_writer import LogHandle
from pystore.core.options import LogOptions
from pystore.message.message import Message
from pystore.message.record import Record

# The born time in a message form: csrc/pystore.h.
_BORN_AT, _BORN_END = 16, 24


@contextmanager
def new_log(root: Path, segment_size: int, **options: Any) -> Iterator[LogHandle]:
    """
    Yields a new log in *root*, ready for appends, and closes it.

    Args:
        root: the store directory, which is created.
        segment_size: in bytes.
        options: options of ``LogOptions``.
    """
    for folder in ("commitlog", "meta/tmp"):
        (root / folder).mkdir(parents=True)
    chosen = {"store_host": STORE_HOST} | options
    with LogHandle(
        root, LogOptions(writable=True, segment_size=segment_size, **chosen)
    ) as log:
        assert isinstance(log, LogHandle)
        log.start(0, synced_end=0, confirm_offset=0, clean=True)
        yield log


def message_again(record: Record) -> Message:
    """
    Returns the message of *record* for another log.

    A few golden records have the born time 0, which means "now" in a message: here they
    get the born time 1.
    """
    form = record.message().form
    return Message.from_form(
        form[:_BORN_AT]
        + (record.born_ms or 1).to_bytes(8, signed=True)
        + form[_BORN_END:]
    )


def append_all(log: LogHandle, messages: Iterable[Message]) -> None:
    """
    Appends *messages* one by one.
    """
    for message in messages:
        log.append(message.form)


def records_of(log: LogReader) -> list[Record]:
    """
    Returns every record of *log*, from the minimum offset on.
    """
    scan = log.scan(log.ends().min_offset)
    return [log.read(int(offset)) for rows in scan for offset in rows["offset"]]


def records_at(root: Path) -> list[Record]:
    """
    Returns every record of the log in *root*.
    """
    with LogReader(root) as log:
        return records_of(log)
