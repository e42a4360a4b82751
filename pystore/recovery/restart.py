"""
What an opening tells of the process before it: a controller decides from that whether a
member may be elected at once (B2).

Rules: docs/crash-safety.md; B2, B4, A15.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.fs.boot import place_of
from pystore.metastore.schema import LOSSY, PLACE
from pystore.metastore.values import NOT_LOSSY
from pystore.recovery.state import RecoveryInput
from pystore.recovery.stored_bounds import is_page_valid

__all__ = ["NO_RESTART", "Restart", "restart_of"]


@dataclass(frozen=True, slots=True)
class Restart:
    """
    The process before this one, as far as its store tells.

    Attributes:
        published_end: of the live page as that process left it; ``None``: there was no
            process before.
        keeps_pages: boot and mount are those of that process, so what it wrote is in
            the page cache.
        is_copy: the store is a copy or a restore: what it tells is of another one.
        is_lossy: records that the broker may have acknowledged were given up, and no
            master has admitted it since (B4).
    """

    published_end: int | None = None
    keeps_pages: bool = False
    is_copy: bool = False
    is_lossy: bool = False


NO_RESTART = Restart()
"""Of a new store."""


def restart_of(recovery_input: RecoveryInput) -> Restart:
    """
    Returns what a store tells of the process before, before it is opened for writing.
    """
    view, live = recovery_input.view, recovery_input.live
    if view is None or live is None:
        return NO_RESTART
    is_copy = view.read(PLACE) != place_of(recovery_input.root)
    is_valid = is_page_valid(live, recovery_input.boot)
    is_lossy = view.read(LOSSY) != NOT_LOSSY
    return Restart(live.published_end, is_valid and not is_copy, is_copy, is_lossy)
