"""
A store whose log begins late, as that of a replica that joined after retention, and
the segments of a whole store that it lacks.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pystore import Store
from pystore.doctor.source import epochs_of
from pystore.fs.layout import segment_path
from pystore.seals import read_seal
from pystore.store.mend import PulledSegment, pulled_path
from pystore.store.sealer import seal_next


def follow_from(
    source: Path, late: Path, base: int, confirmed: int | None = None
) -> None:
    """
    Makes a store with the log of another one from a segment on.

    Args:
        source: the other one.
        late: the path of the new one.
        base: of its first segment.
        confirmed: up to where; ``None``: all of it.
    """
    with Store(source, mode="r") as whole:
        size, end = whole.log.ends.segment_size, whole.log.end_offset
        with Store(
            late, segment_size=size, queue_file_bytes=whole.queues.file_size
        ) as store:
            store.begin_at(base)
            epochs = epochs_of(source)
            assert epochs is not None
            table = epochs.cut_prefix(base)
            writer = store.log.writer
            with writer.metastore.change() as change:
                change.replace_epochs(table)
            writer.export_epochs(table)
            log = writer.log
            for block in whole.log.blocks(base, end):
                log.append_raw(block.offset, bytes(block.view))
            log.sync()
            log.confirm(end if confirmed is None else confirmed)
            store.dispatch()
            while seal_next(writer):
                pass


def pull(source: Path, store: Store, base: int) -> PulledSegment:
    """
    Copies a segment of another store to where it is installed from.
    """
    shutil.copyfile(segment_path(source, base), pulled_path(store.path, base))
    epochs = epochs_of(source)
    assert epochs is not None
    return PulledSegment(base, epochs, read_seal(source / "meta" / "seals", base))
