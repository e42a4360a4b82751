"""
What must be true after every step, whatever happens. A violation raises at once.

One reference log holds what was ever confirmed, one per (epoch, start) what was ever
written under that label; every byte that a store gets is compared with them once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sim.store import SimStore

from pystore.ha.insync.ack import AckOutcome, AckResult
from pystore.ha.insync.facts import SessionAcked
from pystore.ha.wire.codes import FRAME_BYTES_MAX, TruncateOutcome
from pystore.ha.wire.decoder import take_frame
from pystore.ha.wire.frames import ConfirmTruncate

if TYPE_CHECKING:
    from sim.ledger import Election

__all__ = ["Checker", "Violation"]


class Violation(AssertionError):
    """
    A promise is broken.
    """


class Checker:
    """
    The reference, and how far each store was compared with it.

    Args:
        min_in_sync: copies that `all` needs.

    Attributes:
        confirmed_log: every byte that was ever confirmed, but for those that the
            election after a power cut of the whole set gave up.
        outcomes: how many waits ended how.
        synced_end: everything below was acked by `all-synced` or is below that.
        given_up: bytes that were lost with a power cut of all (B3).
        excluded: how often a rule of docs/replication.md ("What a Java peer can still
            lose") was the reason why something was not there; no other is.
    """

    def __init__(self, min_in_sync: int) -> None:
        self.confirmed_log = bytearray()
        self.synced_end = 0
        self.given_up = 0
        self.outcomes: dict[str, int] = {}
        self.last_outcome = ""
        self._min_in_sync = min_in_sync
        self._histories: dict[tuple[int, int], bytearray] = {}
        self.excluded: Counter[str] = Counter()
        self._legacy_acked: dict[int, int] = {}
        self._forgot: set[int] = set()
        self._ambiguous: set[tuple[int, int]] = set()
        self._wrote: dict[int, int] = {}
        self._compared: dict[int, int] = {}
        self._acked: dict[int, int] = {}
        self._starts: dict[int, int] = {}
        self._masters: dict[int, int] = {}
        self._leader_epoch = 0

    # -- bytes ----------------------------------------------------------------

    def unrecorded(self, store: SimStore) -> None:
        """
        A Java master's epoch begins without an entry: its label names two histories
        from now on (RMQ-R137), and says nothing of either.
        """
        self.excluded["RMQ-R137"] += 1
        entry = store.epochs.entries[-1]
        self._ambiguous.add((entry.epoch, entry.start_offset))

    def opened(self, broker_id: int, store: SimStore) -> None:
        """
        A process begins with what its store has left. What it acked on a legacy link
        was never said to be on its disk, nor does it say that it is another (RMQ-R183).
        """
        acked = self._legacy_acked.pop(broker_id, 0)
        if store.end < min(acked, len(self.confirmed_log)):
            self._forgot.add(broker_id)
        self.cut(broker_id, store)

    def forgets(self, broker_id: int, store: SimStore) -> None:
        """
        A Java process ends, without a report (RMQ-R183). Its last ack may be under
        way, and be counted after this.
        """
        acked = self._legacy_acked.get(broker_id, 0)
        self._legacy_acked[broker_id] = max(acked, store.end)

    def wrote(self, broker_id: int, store: SimStore) -> None:
        """
        Bytes were appended: they are those of their label (RMQ-R275).
        """
        if store.end >= len(self.confirmed_log):
            self._forgot.discard(broker_id)
        begin, end = self._wrote.get(broker_id, store.base), store.end
        begin = max(begin, store.base)
        self._wrote[broker_id] = end
        for part in store.epochs.ranges(begin, end):
            entry = store.epochs.find(part.start_offset)
            assert entry is not None
            label = entry.epoch, entry.start_offset
            if label in self._ambiguous:
                continue
            history = self._histories.setdefault(label, bytearray())
            at = part.start_offset - entry.start_offset
            data = store.bytes_at(part.start_offset, part.end_offset)
            known = history[at : at + len(data)]
            if known != data[: len(known)]:
                raise Violation(
                    f"RMQ-R275: broker {broker_id} holds other bytes than others in "
                    f"[{part.start_offset}, {part.end_offset}) of epoch {label}"
                )
            if at <= len(history) < at + len(data):
                history += data[len(history) - at :]
        covered = sum(
            one.end_offset - one.start_offset for one in store.epochs.ranges(begin, end)
        )
        if covered != end - begin:
            raise Violation(f"broker {broker_id} holds bytes without a label")

    def cut(self, broker_id: int, store: SimStore) -> None:
        """
        The log may be shorter now.
        """
        for marks in (self._wrote, self._compared, self._legacy_acked):
            marks[broker_id] = min(marks.get(broker_id, 0), store.end)

    def confirmed(self, broker_id: int, store: SimStore, *, is_master: bool) -> None:
        """
        A confirm offset moved: below it every log is the reference.
        """
        begin, end = self._compared.get(broker_id, 0), store.confirm
        begin = max(begin, store.base)
        if end > store.published:
            raise Violation(f"broker {broker_id} confirms {end}, above its end")
        if end <= begin:
            return
        known, data = self.confirmed_log[begin:end], store.bytes_at(begin, end)
        if known != data[: len(known)]:
            raise Violation(
                f"broker {broker_id} has other bytes below its confirm offset {end}"
            )
        if len(known) < len(data):
            if not is_master:
                raise Violation(f"slave {broker_id} confirms {end}, its master did not")
            self.confirmed_log += data[len(known) :]
        self._compared[broker_id] = end

    def told(self, broker_id: int, store: SimStore, data: bytes) -> None:
        """
        A slave says something in a handshake: that its log was cut is true (RMQ-R274).
        """
        frame, _ = take_frame(memoryview(data), FRAME_BYTES_MAX)
        body = frame.body if frame else None
        if not isinstance(body, ConfirmTruncate):
            return
        is_cut = body.outcome is TruncateOutcome.CUT
        if is_cut and body.point != store.end:
            raise Violation(
                f"RMQ-R274: broker {broker_id} confirms a cut at {body.point}, its log "
                f"ends at {store.end}"
            )

    # -- elections ------------------------------------------------------------

    def elected(
        self,
        broker_id: int,
        store: SimStore,
        epoch: int,
        elections: Sequence[Election],
    ) -> None:
        """
        A mastership begins: everything that was confirmed is there (B7, B8).
        """
        owner = self._masters.setdefault(epoch, broker_id)
        if owner != broker_id or epoch in self._starts:
            raise Violation(f"B1: epoch {epoch} begins at {owner} and at {broker_id}")
        begun = max(self._starts, default=0)
        self._starts[epoch] = store.end
        self.cut(broker_id, store)
        if max(self._starts) > epoch:
            # It hears late of an election that is history: it will not get far.
            return
        # An election since the last mastership may have been after a power
        # cut, and have died before it began.
        is_power_cut = any(
            one.is_power_cut for one in elections if begun < one.epoch <= epoch
        )
        lost = len(self.confirmed_log) - store.end
        if is_power_cut and lost > 0:
            # `all` promised caches, and every cache is gone.
            if self.synced_end > store.end and self._excuses(broker_id, store):
                pass
            elif self.synced_end > store.end:
                raise Violation(
                    f"B3: epoch {epoch} begins at {store.end}, all-synced was "
                    f"acked up to {self.synced_end}"
                )
            self.given_up += lost
            del self.confirmed_log[store.end :]
            lost = 0
        if lost > 0 and self._excuses(broker_id, store):
            del self.confirmed_log[store.end :]
        elif lost > 0:
            raise Violation(
                f"epoch {epoch} of broker {broker_id} begins at {store.end}: {lost} "
                "confirmed bytes are lost"
            )
        held = store.bytes_at(store.base, len(self.confirmed_log))
        if held != self.confirmed_log[store.base :]:
            raise Violation(f"epoch {epoch} of broker {broker_id} has other bytes")

    def _excuses(self, broker_id: int, store: SimStore) -> bool:
        """
        Whether a new master lacks bytes because it acked them on a legacy link, lost
        power, and has not come as far again (RMQ-R183).
        """
        if broker_id not in self._forgot:
            return False
        self.excluded["RMQ-R183"] += 1
        self.synced_end = min(self.synced_end, store.end)
        return True

    # -- acks -----------------------------------------------------------------

    def acked(
        self,
        master: SimStore,
        slave: SimStore,
        fact: SessionAcked,
        epoch: int,
        broker_id: int,
    ) -> None:
        """
        An ack of a process that lives: it holds what it says, that is ours (RMQ-R130,
        RMQ-R181), and it has promised our epoch (B6).
        """
        if slave.promised < epoch:
            raise Violation(f"B6: {fact} of epoch {epoch}, promised {slave.promised}")
        received = fact.received_offset
        acked = max(received, fact.flushed_offset or 0)
        if acked > slave.end:
            # A legacy slave acks parts of records. It drops the last one where a new
            # link begins, and the ack of the old link may arrive after that.
            if slave.end < master.last_record_end(acked):
                raise Violation(f"{fact}: the slave's log ends at {slave.end}")
            received = min(received, slave.end)
        begin = max(self._acked.get(fact.session_id, 0), master.base, slave.base)
        self._acked[fact.session_id] = fact.received_offset
        if fact.flushed_offset is None:
            self._legacy_acked[broker_id] = fact.received_offset
        if received <= begin:
            return
        if master.bytes_at(begin, received) != slave.bytes_at(begin, received):
            raise Violation(f"{fact}: the slave holds other bytes than its master")

    def settled(self, epoch: int, one: AckResult, now: int) -> None:
        """
        A wait ended: what was promised is kept.
        """
        name = one.outcome.value
        self.last_outcome = name
        self.outcomes[name] = self.outcomes.get(name, 0) + 1
        if one.outcome is not AckOutcome.REACHED:
            return
        where = f"{one} of epoch {epoch} at {now}"
        if not one.ack.is_shared:
            if epoch < self._leader_epoch:
                raise Violation(f"B8: {where}, after epoch {self._leader_epoch}")
            self._leader_epoch = epoch
            return
        if one.end_offset > len(self.confirmed_log):
            raise Violation(f"{where}: confirmed are {len(self.confirmed_log)}")
        for newer, start in self._starts.items():
            if newer > epoch and one.end_offset > start:
                raise Violation(f"B8: {where}, and epoch {newer} began at {start}")
        if len(one.received_by) < self._min_in_sync:
            raise Violation(f"{where}: fewer than {self._min_in_sync} copies")
        if one.ack.is_synced:
            self.synced_end = max(self.synced_end, one.end_offset)
            if len(one.flushed_by) < self._min_in_sync:
                raise Violation(f"{where}: fewer than {self._min_in_sync} disks")
