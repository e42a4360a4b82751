"""
B10: what was confirmed is compared with a Java master's bytes before it is cut.
"""

from __future__ import annotations

from lib.ha.scripted_legacy_master import BYTES, EPOCHS, TERMS, Master, data, history
from lib.ha.slave_owner import ShortLog
from lib.values import replace

from pystore.ha.slave.effects import (
    Adopt,
    Append,
    Compare,
    Cut,
    Retry,
)
from pystore.ha.wire.legacy import (
    LegacyAck,
    LegacyData,
    LegacyEpochs,
    decode_ack,
)


class TestComparison:
    """B10: confirmed bytes are compared before they are cut."""

    def confirmed(self, tail: bytes, *pairs: tuple[int, int]) -> ShortLog:
        """A log whose every byte was confirmed; its table lacks epoch 3."""
        log = ShortLog(BYTES[:8] + tail, history((1, 0), *pairs))
        log.confirm = len(log.data)
        return log

    def test_reports_carry_the_compared_position_only(self) -> None:
        """
        From the point on, until our end; then what the log holds.
        """
        master = Master(self.confirmed(BYTES[8:24]))
        master.say(EPOCHS)
        assert [16] == master.reports()
        master.owner.pass_time(5_000)
        assert [16, 16] == master.reports()
        master.say(data(16, 4, (3, 16)))
        assert [16, 16, 20] == master.reports()
        master.say(LegacyData(20, 3, 16, 24, BYTES[20:24] + b"more....."[:8]))

        assert [16, 16, 20, 32] == master.reports()
        assert [(1, 0), (3, 16)] == master.log.epochs.pairs()
        assert [] == master.effects(Cut)
        assert 1 == len(master.effects(Adopt))
        (append,) = master.effects(Append)
        assert isinstance(append, Append)
        assert (24, None) == (append.offset, append.entry)

    def test_other_bytes_are_cut_at_the_first_difference(self) -> None:
        """
        The labels below it are the master's; the next link goes on from there.
        """
        master = Master(self.confirmed(BYTES[8:16] + b"3333.xxxxxxx....", (2, 24)))
        master.say(LegacyEpochs(40, 3, ((1, 0), (3, 16))))
        master.say(data(16, 4, (3, 16)), data(20, 4))

        assert [Cut(16)] == master.effects(Cut)
        assert master.closed.retry is Retry.SOON
        assert [16, 20] == master.reports()
        assert (BYTES[:16], [(1, 0)]) == (
            bytes(master.log.data),
            master.log.epochs.pairs(),
        )

    def test_labels_of_equal_bytes_are_adopted_with_a_cut(self) -> None:
        """
        Else the next meeting would find no more than this one.
        """
        master = Master(self.confirmed(BYTES[8:24] + b"diverged", (2, 24)))
        master.say(LegacyEpochs(40, 3, ((1, 0), (3, 16))))
        master.say(data(16), LegacyData(24, 3, 16, 24, b"masters."))

        assert [Cut(24)] == master.effects(Cut)
        assert [(1, 0), (3, 16)] == master.log.epochs.pairs()
        assert BYTES == bytes(master.log.data)

    def test_nothing_confirmed_is_cut_by_a_master_of_our_own_epoch(self) -> None:
        """
        B4, RMQ-R152: no election could have decided that.
        """
        log = ShortLog(BYTES, history((1, 0), (3, 8)), confirm=24)
        master = Master(log)
        master.say(EPOCHS)
        while not master.owner.closed:
            at = master.reports()[-1]
            master.say(
                LegacyData(at, *((1, 0) if at < 16 else (3, 16)), 24, b"other...")
            )

        assert master.closed.retry is Retry.OPERATOR
        assert BYTES == bytes(log.data)

    def test_a_master_that_ends_below_our_confirm_is_refused(self) -> None:
        """
        What lies above its end cannot be compared, and was confirmed.
        """
        master = Master(self.confirmed(BYTES[8:24]))
        master.say(LegacyEpochs(16, 3, ((1, 0), (3, 8))))

        assert master.closed.retry is Retry.OPERATOR
        assert BYTES == bytes(master.log.data)

    def test_what_lies_above_the_masters_end_goes_first(self) -> None:
        """
        Before the first report: it was never confirmed.
        """
        log = ShortLog(BYTES + b"unconfirmed", history((1, 0)), confirm=24)
        master = Master(log)
        master.say(EPOCHS)

        assert [Cut(24)] == master.effects(Cut)
        assert [16] == master.reports()

    def test_what_was_never_confirmed_is_compared_where_epochs_are_missing(
        self,
    ) -> None:
        """
        RMQ-R137: the master lacks the epoch that the controller told, so its last
        entry may name bytes of several masters, ours among the losers.
        """
        log = ShortLog(b"one.one.stale-A!", history((1, 0)), confirm=8)
        master = Master(log, replace(TERMS, epoch=2))
        master.say(LegacyEpochs(24, 1, ((1, 0),)), data(8, 16, (1, 0)))

        assert [8] == master.reports()
        assert 1 == len(master.effects(Compare))
        assert [Cut(8)] == master.effects(Cut)
        assert BYTES[:8] == bytes(log.data)

    def test_a_frame_below_our_end_is_none_once_all_was_compared(self) -> None:
        """
        The comparison ends at our end and does not begin again.
        """
        master = Master(self.confirmed(BYTES[8:24]))
        master.say(EPOCHS, data(16))
        assert LegacyAck(24) == decode_ack(memoryview(master.owner.sent[-1]))[0]  # type: ignore[index]
        master.say(data(16))

        assert master.closed.retry is Retry.SOON
