"""
`CommitLog` against a bytearray: any sequence of what a program can do.

After each step the bytes of the log are those of the model, no queue has a gap or
a repeat, and above the end there are zeros.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from lib.oracle.model import Form, Model, Placed, Spec
from lib.oracle.reference import BODY, OFFSET, PROPERTY, ROW, TAGS, TOPIC, ReferenceLog
from lib.oracle.strategies import (
    TOPICS,
    Row,
    columns_of,
    message_of,
    row_specs,
    rows_of_columns,
    specs,
)
from lib.store.stores import in_killed_child, make_folder

from pystore import (
    POSITION_DTYPE,
    Appended,
    Check,
    CommitLog,
    InvalidError,
    OffsetOutOfRange,
    Route,
)
from pystore.core.options import AckName

SEGMENT = 8192
BODY_MAX = 900
ROW_CHECKS = BODY | PROPERTY | OFFSET | TAGS | TOPIC

batches = st.lists(specs(BODY_MAX), min_size=1, max_size=5)


class LogMachine(RuleBasedStateMachine):
    """
    A log that is written, its slave, and a reader that follows.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = make_folder()
        self.root = self.folder / "store"
        self.reader: CommitLog | None = None
        self.store_ms = 0
        self.received = 0

    @initialize(property_crc=st.booleans(), is_ipv6=st.booleans())
    def begin(self, property_crc: bool, is_ipv6: bool) -> None:
        """
        A new store, and one that takes its raw bytes.
        """
        host = "[2001:db8::7]:10911" if is_ipv6 else "127.0.0.1:10911"
        self.options: dict[str, Any] = {
            "segment_size": SEGMENT,
            "property_crc": property_crc,
            "store_host": host,
            "flush_interval_ms": 0,
        }
        self.model = Model(Form(SEGMENT, property_crc, host))
        self.log = CommitLog(self.root, **self.options)
        self.slave = CommitLog(self.folder / "slave", **self.options)

    def teardown(self) -> None:
        """
        Whatever happened, nothing stays.
        """
        for log in (
            self.reader,
            getattr(self, "log", None),
            getattr(self, "slave", None),
        ):
            if log:
                log.close()
        shutil.rmtree(self.folder)

    # -- appending ---------------------------------------------------------

    def check_appended(self, done: Appended, placed: list[Placed]) -> None:
        """
        An answer says where the records went, and time never goes back.
        """
        first, last = placed[0], placed[-1]
        assert (first.offset, last.end, len(placed)) == (
            done.offset,
            done.end,
            done.count,
        )
        assert first.queue_offset == done.queue_offset
        assert self.store_ms <= done.store_ms
        self.store_ms = done.store_ms

    @rule(spec=specs(BODY_MAX), ack=st.sampled_from(["leader", "leader-synced"]))
    def append(self, spec: Spec, ack: AckName) -> None:
        """
        One message.
        """
        done = self.log.append(message_of(spec), ack)
        self.check_appended(done, self.model.append([spec], done.store_ms))
        if ack == "leader-synced":
            assert self.model.end == self.log.synced_offset

    @rule(batch=batches)
    def append_batch(self, batch: list[Spec]) -> None:
        """
        Several messages in one segment.
        """
        positions = np.zeros(len(batch), POSITION_DTYPE)
        done = self.log.append_batch(map(message_of, batch), positions=positions)
        placed = self.model.append(batch, done.store_ms)
        self.check_appended(done, placed)
        assert [p.offset for p in placed] == positions["offset"].tolist()
        assert [p.queue_offset for p in placed] == positions["queue_offset"].tolist()

    @rule(rows=rows_of_columns)
    def append_columns(self, rows: list[Row]) -> None:
        """
        Several messages in as many segments as it takes.
        """
        done = self.log.append_columns(columns_of(rows))
        self.check_appended(
            done, self.model.append_columns(row_specs(rows), done.store_ms)
        )

    @rule(batch=batches, topic=st.sampled_from(TOPICS), queue=st.integers(0, 2))
    def append_client_batch(self, batch: list[Spec], topic: str, queue: int) -> None:
        """
        What a producer of RocketMQ sends.
        """
        route = Route(topic, queue, born_ms=77, born_host="10.0.0.1:9")
        entries = b"".join(message_of(spec).client_form for spec in batch)
        done = self.log.append_client_batch(route, entries)
        as_sent = [
            Spec(topic, s.body, queue, s.properties, s.flag, 0, 0, 77, 0, "10.0.0.1:9")
            for s in batch
        ]
        self.check_appended(done, self.model.append(as_sent, done.store_ms))

    @rule(size=st.integers(SEGMENT, 2 * SEGMENT))
    def append_too_much(self, size: int) -> None:
        """
        What fits no segment is refused, and nothing changes.
        """
        with pytest.raises(InvalidError, match="segment"):
            self.log.append(message_of(Spec("A", bytes(size))))

    # -- changing ----------------------------------------------------------

    @rule()
    def roll(self) -> None:
        """
        The next segment begins, unless the active one is empty.
        """
        self.log.writer.log.roll()
        if self.model.bases and self.model.end > self.model.bases[-1]:
            self.model.roll()

    @rule()
    def sync(self) -> None:
        """
        All of it is on disk.
        """
        self.log.sync()
        assert self.model.end == self.log.synced_offset

    @rule()
    def keep(self) -> None:
        """
        Bounds are stored, once.
        """
        self.log.keep()
        assert not self.log.keep()

    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        """
        The end goes back to where a record ends.
        """
        offset = data.draw(st.sampled_from(self.model.cuts))
        report = self.log.cut(offset)
        assert self.model.end - offset == report.bytes_cut
        self.model.cut(offset)
        self.follow_cut()

    def follow_cut(self) -> None:
        """
        The slave gives up what its master has not.
        """
        ends = self.slave.ends
        if ends.received_end > self.model.end:
            self.slave.cut(min(ends.published_end, self.model.end))

    @precondition(lambda self: self.model.kept)
    @rule(data=st.data())
    def cut_within_a_record(self, data: st.DataObject) -> None:
        """
        Ends are ends of records.
        """
        record = data.draw(st.sampled_from(self.model.kept))
        offset = data.draw(st.integers(record.offset + 1, record.end - 1))
        with pytest.raises(InvalidError, match="no record ends there"):
            self.log.cut(offset)

    @rule(data=st.data())
    def delete_before(self, data: st.DataObject) -> None:
        """
        Whole segments go from the front.
        """
        offset = data.draw(st.integers(0, self.model.end + SEGMENT))
        assert self.model.delete_before(offset) == self.log.delete_before(offset)
        if self.reader is not None:
            self.reader.close()
            self.reader = None

    # -- opening again -----------------------------------------------------

    def reopen(self) -> None:
        """
        Open what is there.
        """
        self.log = CommitLog(self.root, **self.options)

    @rule()
    def close_and_open(self) -> None:
        """
        A clean close makes a valid clean mark.
        """
        self.log.close()
        self.reopen()
        assert self.log.recovery.is_clean
        assert (0, "") == (self.log.recovery.cut_bytes, self.log.recovery.cut_reason)

    @rule(rows=rows_of_columns, batch=batches, is_rolled=st.booleans(), data=st.data())
    def append_and_be_killed(
        self,
        rows: list[Row],
        batch: list[Spec],
        is_rolled: bool,
        data: st.DataObject,
    ) -> None:
        """
        What another process was answered before SIGKILL is there.
        """
        self.log.close()
        cut = data.draw(st.none() | st.sampled_from(self.model.cuts))
        deleted = data.draw(st.integers(0, self.model.end + SEGMENT))

        held = []  # a handle that is forgotten is closed

        def work(report: Callable[[object], object]) -> None:
            log = CommitLog(self.root, **self.options)
            held.append(log)
            if cut is not None:
                log.cut(cut)
            report(log.append_batch(map(message_of, batch)))
            if is_rolled:
                log.writer.log.roll()
            report(log.delete_before(deleted))
            report(log.append_columns(columns_of(rows)))

        first, removed, second = in_killed_child(work)
        if cut is not None:
            self.model.cut(cut)
            self.follow_cut()
        self.check_appended(first, self.model.append(batch, first.store_ms))
        if is_rolled:
            self.model.roll()
        assert self.model.delete_before(deleted) == removed
        placed = self.model.append_columns(row_specs(rows), second.store_ms)
        self.check_appended(second, placed)
        self.reopen()
        assert not self.log.recovery.is_clean
        assert self.log.recovery.foreign == ()

    # -- reading -----------------------------------------------------------

    @precondition(lambda self: self.model.kept)
    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        """
        One record.
        """
        placed = data.draw(st.sampled_from(self.model.kept))
        record = self.log.read(placed.offset)
        spec = placed.spec
        assert (spec.topic, spec.body) == (record.topic, record.body)
        assert dict(spec.properties).items() <= record.properties.items()
        assert message_of(spec).client_form == record.message().client_form

    @rule(distance=st.integers(0, SEGMENT))
    def read_behind_the_end(self, distance: int) -> None:
        """
        There is nothing.
        """
        with pytest.raises(OffsetOutOfRange, match=str(self.model.end)):
            self.log.read(self.model.end + distance)

    @rule(rows=st.integers(1, 50))
    def scan(self, rows: int) -> None:
        """
        The rows are those of a slow reader of the same bytes.
        """
        oracle = ReferenceLog(self.model.bases, SEGMENT, self.model.segments)
        (expected,) = oracle.rows(self.model.min_offset, ROW_CHECKS)
        found = list(self.log.scan(checks=Check(ROW_CHECKS), rows=rows))
        whole = np.concatenate([np.empty(0, ROW), *found])
        for name in ROW.names or ():
            if name != "topic_id":
                assert expected[name].tolist() == whole[name].tolist(), name
        assert [p.spec.topic for p in self.model.kept] == [
            self.log.topic(int(topic)) for topic in whole["topic_id"]
        ]

    @rule()
    def follow(self) -> None:
        """
        A reader sees what the writer has, as soon as it has it.
        """
        self.reader = self.reader or CommitLog(self.root, mode="r")
        self.check_bytes(self.reader)

    @rule(size=st.integers(1, 3 * SEGMENT))
    def replicate(self, size: int) -> None:
        """
        Raw bytes, cut anywhere, make an equal log.
        """
        at = self.slave.ends.received_end
        piece = bytes(self.model.data[at : at + size])
        assert at + len(piece) == self.slave.writer.log.append_raw(at, piece)
        ends = self.slave.ends
        assert ends.published_end in self.model.ends
        assert at + len(piece) == max(ends.received_end, ends.published_end)

    # -- what always holds -------------------------------------------------

    def check_bytes(self, log: CommitLog) -> None:
        """
        The bytes that a log shows are those of the model.
        """
        model = self.model
        assert (model.min_offset, model.end) == (log.min_offset, log.end_offset)
        found = b"".join(bytes(block.view) for block in log.blocks())
        assert model.data[model.min_offset :] == found

    @invariant()
    def the_log_is_the_model(self) -> None:
        """
        Byte for byte, and zero above.
        """
        self.check_bytes(self.log)
        ends = self.log.ends
        assert ends.synced_end <= ends.published_end == ends.received_end
        assert ends.synced_end in (*self.model.ends, 0)
        assert self.model.bases == self.log.reader.segments()
        if self.model.bases:
            base = self.model.bases[-1]
            raw = (self.root / "commitlog" / f"{base:020d}").read_bytes()
            assert not any(raw[self.model.end - base :])

    @invariant()
    def queues_have_no_gap(self) -> None:
        """
        The core's table says what comes next.
        """
        queues, _ = self.log.writer.log.queues_fill()
        for queue, following in queues.items():
            assert self.model.next_offset(queue) == following, queue

    @invariant()
    def the_slave_is_a_beginning(self) -> None:
        """
        What the slave shows is what the master has.
        """
        found = b"".join(bytes(block.view) for block in self.slave.blocks())
        assert self.model.data[: len(found)] == found
        assert self.slave.end_offset == len(found)


LogMachine.TestCase.settings = settings(
    max_examples=settings.default.max_examples if settings.default else 50,
    stateful_step_count=25,
)
test_a_log_is_its_model_whatever_is_done = LogMachine.TestCase
