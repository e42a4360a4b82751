"""
`Store` against a dict: what each queue holds, whatever was done to the log.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
)
from lib.oracle.model import Form, Model, Placed, Queue, Spec
from lib.oracle.strategies import TAGS, TOPICS, message_of, specs
from lib.store.stores import in_killed_child, make_folder

from pystore import Appended, OffsetOutOfRange, Record, Retention, Store

SEGMENT = 8192
QUEUE_FILE = 400  # twenty entries

batches = st.lists(specs(600), min_size=1, max_size=8)


class StoreMachine(RuleBasedStateMachine):
    """
    A store that is written, and one that reads it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = make_folder()
        self.root = self.folder / "store"
        self.options: dict[str, Any] = {
            "segment_size": SEGMENT,
            "queue_file_bytes": QUEUE_FILE,
            "flush_interval_ms": 0,
        }
        self.model = Model(Form(SEGMENT))
        self.store = Store(self.root, **self.options)

    def teardown(self) -> None:
        """
        Whatever happened, nothing stays.
        """
        self.store.close()
        shutil.rmtree(self.folder)

    # -- the dict ----------------------------------------------------------

    @property
    def queues(self) -> dict[Queue, list[Placed]]:
        """
        Each queue's messages, by queue offset; those that were deleted, too.
        """
        found: dict[Queue, list[Placed]] = {}
        for placed in self.model.placed:
            if placed.spec.is_queued:
                found.setdefault(placed.spec.queue, []).append(placed)
        return found

    def first(self, placed: list[Placed]) -> int:
        """
        The first queue offset that is still there.
        """
        return sum(p.offset < self.model.min_offset for p in placed)

    def draw_queue(self, data: st.DataObject) -> tuple[Queue, list[Placed], int]:
        """
        One of the queues, its messages, and the first that is there.
        """
        queue, placed = data.draw(st.sampled_from(list(self.queues.items())))
        return queue, placed, self.first(placed)

    def check(self, placed: list[Placed], records: list[Record]) -> None:
        """
        Records are the messages.
        """
        assert [(p.offset, p.queue_offset) for p in placed] == [
            (r.offset, r.queue_offset) for r in records
        ]
        assert [(p.spec.queue, p.spec.body) for p in placed] == [
            ((r.topic, r.queue_id), r.body) for r in records
        ]

    # -- changing ----------------------------------------------------------

    def note(self, batch: list[Spec], done: Appended) -> None:
        """
        The model has what was answered.
        """
        placed = self.model.append(batch, done.store_ms)
        assert (placed[0].offset, placed[-1].end) == (done.offset, done.end)

    @rule(batch=batches)
    def append(self, batch: list[Spec]) -> None:
        """
        Messages to any queues.
        """
        self.note(batch, self.store.log.append_batch(map(message_of, batch)))

    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        """
        The end goes back, in the log and in every queue.
        """
        offset = data.draw(st.sampled_from(self.model.cuts))
        assert self.model.end - offset == self.store.cut(offset)
        self.model.cut(offset)

    @rule(segments=st.integers(0, 3))
    def retain(self, segments: int) -> None:
        """
        The oldest segments go.
        """
        bases = self.model.bases
        kept = bases[-max(segments, 1) :]
        retention = Retention(None, segments * SEGMENT)
        removed = self.store.retain(retention, now_ms=0)
        expected = self.model.delete_before(kept[0]) if len(bases) > 1 else 0
        assert expected == removed

    @rule()
    def keep(self) -> None:
        """
        The call of the maintenance thread.
        """
        self.store.keep()

    @rule()
    def close_and_open(self) -> None:
        """
        A clean close makes a valid clean mark, queues included.
        """
        self.store.close()
        self.store = Store(self.root, **self.options)
        assert self.store.log.recovery.is_clean

    @rule(first=batches, second=batches, is_kept=st.booleans())
    def append_and_be_killed(
        self, first: list[Spec], second: list[Spec], is_kept: bool
    ) -> None:
        """
        Queues follow the log, however far they were.
        """
        self.store.close()

        def work(report: Callable[[object], object]) -> None:
            store = Store(self.root, **self.options)
            report(store.log.append_batch(map(message_of, first)))
            if is_kept:
                store.keep()
            report(store.log.append_batch(map(message_of, second)))
            store.dispatch()

        for batch, done in zip((first, second), in_killed_child(work), strict=True):
            self.note(batch, done)
        self.store = Store(self.root, **self.options)

    # -- reading -----------------------------------------------------------

    @precondition(lambda self: self.queues)
    @rule(data=st.data(), index=st.integers(0, 60))
    def read(self, data: st.DataObject, index: int) -> None:
        """
        By topic, queue and queue offset.
        """
        queue, placed, first = self.draw_queue(data)
        if first <= index < len(placed):
            self.check([placed[index]], [self.store.read(*queue, index)])
        else:
            with pytest.raises(OffsetOutOfRange):
                self.store.read(*queue, index)

    @precondition(lambda self: self.queues)
    @rule(data=st.data(), count=st.integers(1, 40))
    def read_from(self, data: st.DataObject, count: int) -> None:
        """
        Several in a row, and none at the end.
        """
        queue, placed, first = self.draw_queue(data)
        start = data.draw(st.integers(first, len(placed)))
        found = self.store.read_from(*queue, start, count)
        self.check(placed[start : start + count], found)

    @precondition(lambda self: self.queues)
    @rule(data=st.data(), tag=st.sampled_from(TAGS))
    def find_tag(self, data: st.DataObject, tag: str) -> None:
        """
        By tag, where two tags have one hash.
        """
        queue, placed, first = self.draw_queue(data)
        start = data.draw(st.integers(0, len(placed)))
        wanted = [
            p
            for p in placed[max(first, start) :]
            if dict(p.spec.properties).get("TAGS") == tag
        ]
        self.check(wanted, list(self.store.find_tag(*queue, tag, start)))

    @precondition(lambda self: self.queues)
    @rule(data=st.data(), later_ms=st.integers(-2, 2))
    def offset_at_time(self, data: st.DataObject, later_ms: int) -> None:
        """
        By time, near the times there are.
        """
        queue, placed, first = self.draw_queue(data)
        time_ms = data.draw(st.sampled_from(placed)).store_ms + later_ms
        before = sum(p.store_ms < time_ms for p in placed[first:])
        assert first + before == self.store.offset_at_time(*queue, time_ms)

    @rule()
    def read_elsewhere(self) -> None:
        """
        A store open for reading has the queues as far as they were dispatched.
        """
        self.store.dispatch()
        with Store(self.root, mode="r") as reader:
            for queue, placed in self.queues.items():
                first = self.first(placed)
                assert (first, len(placed)) == reader.queue_range(*queue)
                self.check(placed[first:], reader.read_from(*queue, first, 1000))

    # -- what always holds -------------------------------------------------

    @invariant()
    def queues_are_what_was_appended(self) -> None:
        """
        Every queue has a place for each of its messages, and no other.
        """
        queues = self.queues
        for topic in TOPICS:
            for queue_id in range(3):
                placed = queues.get((topic, queue_id), [])
                if placed:
                    found = self.store.queue_range(topic, queue_id)
                    assert (self.first(placed), len(placed)) == found
                    continue
                try:
                    found = self.store.queue_range(topic, queue_id)
                except OffsetOutOfRange:
                    # Never written, or cut away whole: both are fine.
                    continue
                assert found[0] == found[1]


StoreMachine.TestCase.settings = settings(stateful_step_count=25)
test_a_store_is_a_dict_of_queues_whatever_is_done = StoreMachine.TestCase
