"""
Opening a store for reading, also while another process writes it.

The live page has the end for readers, if it was written in this boot and on this
mount, and no other program wrote since. Otherwise a scan of the newest segment with a
record finds the end (A4).

Nothing is written, no lock is taken, LMDB is not opened.
"""

from __future__ import annotations

from pathlib import Path

from pystore.bindings.ffi import Check
from pystore.core.live_page import LivePage
from pystore.core.log_reader import LogReader
from pystore.core.options import LogOptions
from pystore.errors import NotAStoreError
from pystore.fs.boot import boot_of
from pystore.fs.layout import ABORT, LIVE_NAME, META_NAME, require_store
from pystore.recovery.segments import Segments
from pystore.rocketmq.abort_file import parse_abort
from pystore.store.report import RecoveryReport

__all__ = ["binding_page", "find_end", "open_reader"]


def open_reader(root: Path, options: LogOptions) -> tuple[LogReader, RecoveryReport]:
    """
    Open a store for reading.

    Raises:
        NotAStoreError: missing, or not a store.
        StorageError: the system refused.
    """
    require_store(root)
    live = binding_page(root)
    if live is not None:
        log = LogReader(root, options, live)
        ends = log.ends()
        return log, RecoveryReport(
            min_offset=ends.min_offset,
            end_offset=ends.published_end,
            synced_end=ends.synced_end,
        )
    log = LogReader(root, options)
    end, reason = find_end(Segments(log))
    log.limit(end)
    return log, RecoveryReport(
        min_offset=log.ends().min_offset, end_offset=end, cut_reason=reason
    )


def binding_page(root: Path) -> LivePage | None:
    """
    The live page, if it is valid.
    """
    path = root / META_NAME / LIVE_NAME
    if not path.exists():
        return None
    try:
        live = LivePage(path)
    except NotAStoreError:
        # Without a valid page the reader scans; an opening for writing has the error.
        return None
    words, boot = live.read(), boot_of(root)
    if (words.boot_id, words.mount_id) != (boot.boot_id, boot.mount_id):
        return None
    abort = root / ABORT
    try:
        note = parse_abort(abort.read_bytes())
    except FileNotFoundError:
        # Closed by pystore, or later by a Java broker: check the bytes.
        return live if _ends_in_zeros(root, live) else None
    writer = (note.incarnation or "").partition("-")[0]
    return live if writer == str(words.incarnation) else None


def _ends_in_zeros(root: Path, live: LivePage) -> bool:
    """
    Whether the bytes at the published end are zero: no other program appended.
    """
    with LogReader(root) as log:
        return not any(Segments(log).raw(live.read().published_end, 8))


def find_end(segments: Segments) -> tuple[int, str]:
    """
    The end of the last whole record, in the newest segment that begins with one, and
    the reason of the stop.

    Structure and embedded offsets are checked; `pystore verify` checks all bytes.
    """
    for base in reversed(segments.bases):
        tail = segments.scan_end(base, Check.OFFSET)
        if tail.records or tail.blanks:
            end = tail.offset
            if tail.stop.is_bad or end > segments.end:
                end = tail.record_end
            return end, tail.text
    return (segments.bases[0] if segments.bases else 0), ""
