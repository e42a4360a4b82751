"""
The stores that orders are for: one that this process has open for writing, and one that
cannot be opened before it is repaired.

Source: docs/autorecovery.md, *Orders to a replica*, *An ill replica*.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pystore.errors import InvalidError
from pystore.segments.mend_plan import MendAction, MendStep, parting
from pystore.segments.mending import (
    install_file,
    patch_blocks,
    patch_file,
    pull,
    pull_file,
    put_in_place,
)
from pystore.segments.pull import ReachCallback
from pystore.segments.store_copy import StoreCopy
from pystore.store.mend import PulledSegment
from pystore.store.store import Store

__all__ = ["ClosedTarget", "OpenTarget", "OrderTarget"]


class OrderTarget(Protocol):
    """
    The replica that an order is for. Any thread.
    """

    @property
    def path(self) -> Path:
        """
        The directory of the store.
        """
        ...

    @property
    def is_open(self) -> bool:
        """
        Whether a writer has it: replication cuts and brings what is not settled.
        """
        ...

    @property
    def begin(self) -> int:
        """
        Where its log begins now.
        """
        ...

    def patch(self, step: MendStep, on_block: ReachCallback) -> None:
        """
        Writes the bad blocks of a step in place.
        """
        ...

    def pull(self, step: MendStep, on_block: ReachCallback) -> None:
        """
        Copies a whole segment beside the log.
        """
        ...

    def put_in_place(self, step: MendStep, kept: Path) -> None:
        """
        Makes a pulled segment one of the log.

        Args:
            step: that was pulled.
            kept: the directory for a file that is replaced.
        """
        ...


@dataclass(frozen=True, slots=True)
class OpenTarget:
    """
    A store that is open for writing.

    Attributes:
        store: the same.
        fill: puts a segment before the log.
    """

    store: Store
    fill: Callable[[PulledSegment], None]

    @property
    def path(self) -> Path:
        """
        As `OrderTarget.path`.
        """
        return self.store.path

    @property
    def is_open(self) -> bool:
        """
        As `OrderTarget.is_open`.
        """
        return True

    @property
    def begin(self) -> int:
        """
        As `OrderTarget.begin`.
        """
        return self.store.log.min_offset

    def patch(self, step: MendStep, on_block: ReachCallback) -> None:
        """
        As `OrderTarget.patch`.
        """
        patch_blocks(self.store, step, on_block)

    def pull(self, step: MendStep, on_block: ReachCallback) -> None:
        """
        As `OrderTarget.pull`.
        """
        pull(self.store, step, on_block)

    def put_in_place(self, step: MendStep, kept: Path) -> None:
        """
        As `OrderTarget.put_in_place`.
        """
        put_in_place(self.store, self.fill, step, kept)


@dataclass(frozen=True, slots=True)
class ClosedTarget:
    """
    A store that no process has open. Nothing is put before its log.

    Attributes:
        path: of the store.
        begin: of its log.
        segment_size: in bytes.
        changing: held while a file of the log is changed; raises `PystoreError` if the
            store is open.
    """

    path: Path
    begin: int
    segment_size: int
    changing: Callable[[], AbstractContextManager[object]]

    @property
    def is_open(self) -> bool:
        """
        As `OrderTarget.is_open`.
        """
        return False

    def patch(self, step: MendStep, on_block: ReachCallback) -> None:
        """
        As `OrderTarget.patch`.
        """
        patch_file(self.path, step, on_block, self.changing)

    def pull(self, step: MendStep, on_block: ReachCallback) -> None:
        """
        As `OrderTarget.pull`.
        """
        pull_file(self.path, step, self.segment_size, on_block)

    def put_in_place(self, step: MendStep, kept: Path) -> None:
        """
        As `OrderTarget.put_in_place`.

        Raises:
            InvalidError: the step is a fill; or another process has cut or repaired the
                log since the plan.
        """
        if step.action is MendAction.FILL:
            raise InvalidError(
                f"{self.path}: it cannot be opened: fill it after its repair",
                offset=step.base,
            )
        with self.changing():
            own = StoreCopy(self.path)
            if own.facts.is_unsettled(step.base):
                why = parting(own.facts, step.sources[0].facts, step.base)
                if not why and not own.problem(step.base):
                    why = "the segment is there again"
                if why:
                    raise InvalidError(f"{self.path}: {why}", offset=step.base)
            install_file(self.path, step.base, kept)
