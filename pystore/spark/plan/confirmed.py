"""
How far the records of a store are confirmed: one rule for streams, export and compact.

A store with epochs, or with a confirm offset in its live page, has replicas. All of
them have its records below the confirm offset, which may be 0. Any other store is
confirmed to its end. Without a valid live page ``checkpoint`` has the confirm offset.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pystore.fs.layout import CHECKPOINT
from pystore.rocketmq.checkpoint_file import parse_checkpoint
from pystore.spark.plan.store_files import read_epoch_table, read_if_present

if TYPE_CHECKING:
    from pystore.core.results import Ends

__all__ = ["confirmed_end"]


def confirmed_end(store: Path, ends: Ends, *, is_live: bool) -> int:
    """
    Returns the offset up to which the records of a store are confirmed, at most the
    end of the log.

    Args:
        store: root of the store.
        ends: of the log.
        is_live: whether the live page is valid.

    Raises:
        FormatError: the epoch file or ``checkpoint`` cannot be read.
        OSError: the system refused.
    """
    if is_live and ends.confirm_offset:
        return min(ends.confirm_offset, ends.published_end)
    epochs = read_epoch_table(store)
    if epochs is None or not epochs.entries:
        return ends.published_end
    if is_live:
        return 0
    times = read_if_present(store / CHECKPOINT)
    if times is None:
        return ends.published_end
    confirmed = parse_checkpoint(times, str(store / CHECKPOINT)).confirm_offset
    return min(confirmed, ends.published_end)
