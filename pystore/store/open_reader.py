"""
Opening a store for reading, also while another process writes it.

The live page has the end for readers, if it was written in this boot and on this
mount, no other program wrote since, and it is an end of a record and not below what is
stored as synced. Otherwise a scan of the newest segment
with a record finds the end (A4), or the metadata knows that there was more (A16). That
end holds until a writer begins: then the reader follows it like any other.

Nothing is written, no lock is taken, of LMDB a copy is read.
"""

from __future__ import annotations

from pathlib import Path

from pystore.bindings.ffi import Check, Stop
from pystore.core.live_page import LivePage, LiveWords
from pystore.core.lock import running_writer
from pystore.core.log_reader import LogReader
from pystore.core.options import LogOptions
from pystore.core.results import Cursor, IllRange
from pystore.errors import CorruptError, NotAStoreError
from pystore.fs.atomic import storage_error
from pystore.fs.boot import boot_of
from pystore.fs.layout import ABORT, LIVE_NAME, META_NAME, require_store
from pystore.fs.regular_file import read_regular
from pystore.recovery.dry_run import find_stored_end
from pystore.recovery.segments import Segments
from pystore.rocketmq.abort_file import parse_abort
from pystore.store.report import RecoveryReport

__all__ = ["binding_page", "find_end", "limit_reader", "open_reader"]


def open_reader(root: Path, options: LogOptions) -> tuple[LogReader, RecoveryReport]:
    """
    Open a store for reading.

    Raises:
        NotAStoreError: missing, or not a store.
        CorruptError: no segment is left of a log that had records.
        StorageError: the system refused.
    """
    require_store(root)
    live = _live_page(root)
    # Before the look at the other files: a writer that begins after it is noticed.
    seen = None if live is None else live.read()
    if live is not None and seen is not None and _binds(root, seen):
        log = LogReader(root, options, live)
        ends = log.ends()
        return log, RecoveryReport(
            min_offset=ends.min_offset,
            end_offset=ends.published_end,
            synced_end=ends.synced_end,
        )
    log = LogReader(root, options, live)
    if seen is not None:
        boot = boot_of(root)
        log.await_writer(seen._replace(boot_id=boot.boot_id, mount_id=boot.mount_id))
    try:
        segments = Segments(log)
        end, reason = find_end(segments)
        limit_reader(
            root, log, end, at_most=None if options.serves_ill else segments.end
        )
        ends = log.ends()
    except BaseException:
        # No caller gets the handle.
        log.close()
        raise
    return log, RecoveryReport(
        min_offset=ends.min_offset, end_offset=ends.published_end, cut_reason=reason
    )


def limit_reader(
    root: Path, log: LogReader, end: int, *, at_most: int | None = None
) -> None:
    """
    Set the end of a reader without a valid live page.

    Args:
        root: of the store.
        log: the reader.
        end: that a scan found. The metadata may know of more: what is missing below
            that end is ill, or damage.
        at_most: a reader of whole logs takes the segments that are there: their end.

    Raises:
        CorruptError: no segment is left of a log that had records.
    """
    stored = find_stored_end(root)
    if stored and not log.segments():
        raise CorruptError(
            f"{root}: no segment is left, but records below {stored} were stored as "
            "synced: restore the store from a replica or a backup",
            offset=0,
            path=str(root),
        )
    log.limit(max(end, stored if at_most is None else min(stored, at_most)))


def binding_page(root: Path) -> LivePage | None:
    """
    The live page, if it is valid.
    """
    live = _live_page(root)
    return live if live is not None and _binds(root, live.read()) else None


def _live_page(root: Path) -> LivePage | None:
    path = root / META_NAME / LIVE_NAME
    if not path.exists():
        return None
    try:
        return LivePage(path)
    except NotAStoreError:
        # Without a valid page the reader scans; an opening for writing has the error.
        return None


def _binds(root: Path, words: LiveWords) -> bool:
    boot = boot_of(root)
    if (words.boot_id, words.mount_id) != (boot.boot_id, boot.mount_id):
        return False
    abort = root / ABORT
    try:
        note = parse_abort(read_regular(abort))
    except FileNotFoundError:
        # Closed by pystore, or later by a Java broker: check the bytes.
        return _ends_a_closed_log(root, words.published_end)
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("read", abort, error) from error
    writer = (note.incarnation or "").partition("-")[0]
    return writer == str(words.incarnation) and not _is_contradicted(root, words)


def _is_contradicted(root: Path, words: LiveWords) -> bool:
    """
    Whether the published end that a killed writer left is no end: more was stored as
    synced, or a record goes on there. A running writer puts a changed word right.
    """
    if running_writer(root) is not None:
        return False
    stored, end = find_stored_end(root), words.published_end
    if stored > end:
        return True
    with LogReader(root, LogOptions(serves_ill=True)) as log:
        segments = Segments(log)
        if end > segments.end:
            # Segments are missing: a reader hears of it.
            return False
        base = segments.base_of(end)
        start = stored if base <= stored <= end else base
        found = segments.scan_end(start, Check.OFFSET, end)
        return found.stop is Stop.LIMIT and found.offset < end


def _ends_a_closed_log(root: Path, end: int) -> bool:
    """
    Whether the published end is the end of a store that was closed: the bytes at it are
    zero, as no other program appended, the byte before it is not, as each record and
    blank record ends with one, and it is what was stored as synced. With another end
    the page is damaged. A missing segment says nothing: a reader hears of it.
    """
    with LogReader(root, LogOptions(serves_ill=True)) as log:
        segments = Segments(log)
        if any(segments.raw(end, 8)):
            return False
        if 0 < end <= segments.end and any(segments.raw(end - 1, 1)):
            return True
    return not 0 < find_stored_end(root) < end


def find_end(segments: Segments) -> tuple[int, str]:
    """
    The end of the last whole record, in the newest segment that begins with one, and
    the reason of the stop.

    Structure and embedded offsets are checked; `pystore verify` checks all bytes. If
    the newest segment is ill, its records are not known: then the end is the segment's,
    so that a scan meets the damage.
    """
    for base in reversed(segments.bases):
        tail = segments.scan_end(base, Check.OFFSET)
        if (ill := _ill_behind(segments, tail)) is not None:
            return ill.end, ill.reason
        if tail.records or tail.blanks:
            end = tail.offset
            if tail.stop.is_bad or end > segments.end:
                end = tail.record_end
            return end, tail.text
    return (segments.bases[0] if segments.bases else 0), ""


def _ill_behind(segments: Segments, found: Cursor) -> IllRange | None:
    """
    The ill range that stopped a scan: a record ends in it, or it begins there.
    """
    if found.stop is not Stop.UNREADABLE:
        return None
    segment_end = segments.base_of(found.offset) + segments.segment_size
    return segments.ill_at(segment_end - 1)
