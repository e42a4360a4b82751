"""
The queue of segments that lack a good copy, over the six operations of a record store.

Each method is one commit, or one for each batch. The queue has no threads, and no state
but the records: an audit, a worker and an operator may use it from any process. A mark
is lost only by `UnderReplicationQueue.done` of a claim that saw it; a segment has at
most one holder.

Source: BK-A41 to BK-A61; docs/autorecovery.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from pystore.autorecovery.claim import Claim, begin_claim, end_claim, holder_of
from pystore.autorecovery.dead_segment import DeadSegment, bury, revive
from pystore.autorecovery.mark import (
    Missing,
    Priority,
    SegmentMark,
    decode_mark,
    encode_mark,
)
from pystore.autorecovery.marking import MarkOutcome, NewMark, mark_all
from pystore.autorecovery.pauses import known_pauses
from pystore.autorecovery.queue_view import (
    RecoverySummary,
    list_dead,
    list_marks,
    summarize,
)
from pystore.autorecovery.record_form import encode_form
from pystore.autorecovery.segment_key import (
    DISABLED,
    KICK,
    LOCKS,
    WINDOW,
    SegmentKey,
)
from pystore.autorecovery.segment_rest import SegmentRest
from pystore.autorecovery.settings import (
    RecoverySettings,
    begin_settings,
    change_settings,
    read_settings,
)
from pystore.autorecovery.window import (
    in_order,
    next_issue,
    pages_of,
    put_in_front,
    window_commits,
)
from pystore.autorecovery.worker_slot import WorkerSlot
from pystore.errors import FencedError, FormatError, UnknownOutcomeError
from pystore.records.ops import CheckVersion, Delete, Op, Put
from pystore.records.record_store import RecordStore, StoredRecord

__all__ = ["UnderReplicationQueue"]

_LOST = 2
_TOLD_MAX = 8


class UnderReplicationQueue:
    """
    The queue, seen through one session with the record store. Any thread, but a
    `WorkerSlot` and its claims are for one thread.

    All methods raise the errors of `RecordStore`; `UnknownOutcomeError` is settled by
    reading, and raised by none.

    Args:
        store: the session. A claim is valid as long as it is.
        clock_ms: returns Unix time in milliseconds.
    """

    def __init__(self, store: RecordStore, clock_ms: Callable[[], int]) -> None:
        self._store = store
        self._clock_ms = clock_ms

    # -- marks -----------------------------------------------------------------

    def mark(
        self,
        key: SegmentKey,
        missing: Mapping[int, Missing],
        priority: Priority,
        *,
        by: str,
        size: int = 0,
        term: CheckVersion | None = None,
    ) -> MarkOutcome:
        """
        Marks a segment, or adds facts to its mark. The same fact again writes nothing.

        Args:
            key: of the segment.
            missing: why copies are missing, by broker id.
            priority: how urgent the repair is.
            by: who marks, for people.
            size: bytes of the segment; 0: unknown.
            term: the check of the Auditor's term; ``None``: an operator or a replica.

        Raises:
            FormatError: the mark that there is cannot be read; it stays (BK-A47).
            FencedError: the term has ended.
        """
        made = self.mark_many([NewMark(key, missing, priority, size)], by=by, term=term)
        (outcome,) = made
        if outcome is MarkOutcome.DAMAGED:
            self.get(key)
        return outcome

    def mark_many(
        self,
        marks: Iterable[NewMark],
        *,
        by: str,
        term: CheckVersion | None = None,
    ) -> dict[MarkOutcome, int]:
        """
        Marks many segments, in commits of at most 500 operations; returns how many
        segments had which outcome. Again is fine.

        Raises:
            FencedError: the term has ended.
        """
        return dict(mark_all(self._store, marks, by, self._clock_ms(), term))

    def get(self, key: SegmentKey) -> SegmentMark | None:
        """
        Returns the mark of a segment; ``None``: it has none.

        Raises:
            FormatError: it cannot be read.
        """
        found = self._store.get(key.mark)
        return None if found is None else decode_mark(found.value, found.key)

    def list(
        self,
        include: int | None = None,
        exclude: int | None = None,
        within: str = "",
    ) -> dict[SegmentKey, SegmentMark]:
        """
        Returns the marks (BK-A51), those that cannot be read left out.

        Args:
            include: only those of which the copy of this broker is missing.
            exclude: only those of which it is not.
            within: the beginning of the `SegmentKey.text`, such as ``CLUSTER/SET/``.
        """
        return list_marks(self._store, include, exclude, within)

    def count(self) -> dict[Priority, int]:
        """
        Returns the number of marks of each priority.
        """
        marks = list_marks(self._store).values()
        return {one: sum(mark.priority is one for mark in marks) for one in Priority}

    def summary(self) -> RecoverySummary:
        """
        Returns the present state (AR-R15). It reads every record.
        """
        return summarize(self._store)

    # -- claims ----------------------------------------------------------------

    def slot(self, name: str, chance: Callable[[], float]) -> WorkerSlot:
        """
        Returns a slot of a worker; see `WorkerSlot`.
        """
        return WorkerSlot(self._store, name, chance)

    def take(self, slot: WorkerSlot) -> Claim | None:
        """
        Takes a segment that is due, with one of the most urgent ones first.

        Returns:
            The claim; ``None``: nothing was found, or taking is disabled or paused
            (`pystore.autorecovery.pauses`). Wait then
            (`pystore.autorecovery.idle_wait`): the look was bounded.
        """
        if slot.is_disabled and not self.is_enabled():
            return None
        slot.is_disabled = False
        now_ms, lost = self._clock_ms(), 0
        pauses = slot.pauses.at(now_ms)
        if pauses.stops_repair:
            return None
        for text, scanned in slot.search.look(now_ms, pauses.set_texts):
            seen = self._marked(text, scanned)
            if seen is None:
                continue
            if (until_ms := seen[1].not_before_ms) > now_ms:
                slot.search.met_rest(text, until_ms)
                continue
            claim = begin_claim(
                self._store, *seen, worker=slot.name, nonce=slot.nonce()
            )
            if claim is not None:
                slot.search.hit()
                return claim
            slot.search.met_lock(text)
            lost += 1
            # One segment may be taken by another worker; seldom two in one look.
            if lost == _LOST and not self.is_enabled():
                slot.is_disabled = True
                return None
        return None

    def glance(self, slot: WorkerSlot) -> bool:
        """
        Returns whether another `take` may find more than the last one: one request.
        """
        if slot.is_disabled:
            return self.is_enabled()
        return slot.search.glance(self._clock_ms())

    def _marked(
        self, text: str, scanned: StoredRecord | None
    ) -> tuple[SegmentKey, SegmentMark, int] | None:
        """
        Returns a candidate with its mark and the version of the mark, if it has one.
        """
        try:
            key = SegmentKey.parse(text)
            found = self._store.get(key.mark) if scanned is None else scanned
            if found is None:
                return None
            mark = decode_mark(found.value, found.key)
        except FormatError:
            # The summary tells it; other segments can be repaired.
            return None
        return key, mark, found.version

    def done(self, claim: Claim) -> bool:
        """
        Removes the mark and ends the claim: the segment is repaired.

        Returns:
            Whether it was done. If not, the segment was marked since the claim began or
            the claim had ended; nothing has changed, so look again and then `release`
            it (BK-A49, BK-A57).
        """
        gone: Sequence[Op] = [claim.is_unmarked, Delete(claim.key.mark)]
        return end_claim(self._store, claim, gone)

    def back_off(self, claim: Claim, rest: SegmentRest | None = None) -> bool:
        """
        Ends the claim and lets the segment rest, longer with each failed repair
        (AR-R11). What was marked meanwhile stays.

        Args:
            claim: of the segment.
            rest: why; ``None``: a failed repair, without a reason.

        Returns:
            Whether the claim had not ended.
        """
        settings, _ = read_settings(self._store)
        while True:
            if end_claim(
                self._store,
                claim,
                self._rest(claim.key, settings, rest or SegmentRest()),
            ):
                return True
            if not self.is_held(claim):
                return False
            # It was marked since it was read.

    def _rest(
        self, key: SegmentKey, settings: RecoverySettings, rest: SegmentRest | None
    ) -> Sequence[Op]:
        """
        Returns the operations that let a segment rest; none, if its mark is gone.
        """
        try:
            found = self._store.get(key.mark)
            mark = None if found is None else decode_mark(found.value, found.key)
        except FormatError:
            # The claim has to end all the same; the summary tells the record.
            return []
        if found is None or mark is None:
            return []
        rest = rest or SegmentRest()
        rested = rest.rested(mark, self._clock_ms(), settings)
        return [
            CheckVersion(key.mark, found.version),
            Put(key.mark, encode_mark(rested)),
        ]

    def release(self, claim: Claim) -> bool:
        """
        Ends the claim and leaves the mark as it is; returns whether it had not ended.
        """
        return end_claim(self._store, claim, [])

    def is_held(self, claim: Claim) -> bool:
        """
        Returns whether a claim has not ended.
        """
        held = self._store.get(claim.key.lock)
        return held is not None and held.version == claim.lock

    def holder(self, key: SegmentKey) -> str | None:
        """
        Returns the name of the slot that repairs a segment; ``None``: none (BK-A58).

        Raises:
            FormatError: the lock has a later form, or is damaged.
        """
        return holder_of(self._store, key)

    # -- dead segments ---------------------------------------------------------

    def bury(
        self, claim: Claim, evidence: str, asked: Mapping[int, str] | None = None
    ) -> bool:
        """
        Moves a segment without a good copy out of the queue, and ends the claim
        (AR-R9).

        Args:
            claim: of the segment.
            evidence: what was found at each replica, for people.
            asked: the incarnations that answered, as of
                `pystore.autorecovery.dead_segment.is_offered`.

        Returns:
            Whether it was done; as of `done`.
        """
        return bury(self._store, claim, evidence, self._clock_ms(), asked)

    def revive(self, key: SegmentKey, *, term: CheckVersion | None = None) -> bool:
        """
        Moves a dead segment back: a copy was reported, or an operator wants it. Returns
        whether it was dead.

        Raises:
            FormatError: its record cannot be read.
            FencedError: the term of the Auditor that does it has ended.
        """
        return revive(self._store, key, self._clock_ms(), term)

    def dead(self) -> dict[SegmentKey, DeadSegment]:
        """
        Returns the dead segments, those that cannot be read left out.
        """
        return list_dead(self._store)

    # -- operators and the Auditor ---------------------------------------------

    def forget(self, key: SegmentKey) -> bool:
        """
        Removes all that is known about a segment, also what cannot be read. A repair
        that runs goes on, and changes nothing here.

        Returns:
            Whether there was anything.
        """
        found = bool(self._store.scan(key.mark)) or bool(self._store.scan(key.dead))
        self._settled([Delete(key.mark), Delete(key.dead)])
        return found

    def retry(self, key: SegmentKey) -> bool:
        """
        Lets a segment be tried at once: a dead one returns to the queue, and one that
        rests does so no more. Returns whether it is in the queue now.

        Raises:
            FormatError: its record cannot be read.
        """
        self.revive(key)
        while (found := self._store.get(key.mark)) is not None:
            mark = decode_mark(found.value, found.key)
            rested = replace(mark, tries=0, not_before_ms=0)
            ops: Sequence[Op] = [
                CheckVersion(key.mark, found.version),
                Put(key.mark, encode_mark(rested)),
            ]
            if rested == mark or self._settled(ops):
                return True
        return False

    def first(self, key: SegmentKey) -> bool:
        """
        Puts a segment in front of all others, without its back-off; returns whether it
        is marked.

        Raises:
            FormatError: its mark cannot be read.
        """
        now_ms = self._clock_ms()
        while True:
            found = self._store.get(key.mark)
            if found is None:
                return False
            mark = decode_mark(found.value, found.key)
            front = replace(mark, front_ms=now_ms, not_before_ms=0)
            ops: Sequence[Op] = [
                CheckVersion(key.mark, found.version),
                Put(key.mark, encode_mark(front)),
            ]
            # The same: an answer was lost, and it is written.
            if front == mark or self._settled(ops):
                break
        self._put_in_front([key])
        return True

    def tell_marked(self, keys: Sequence[SegmentKey]) -> None:
        """
        Lets idle workers notice segments that another process than the Auditor marked,
        by their next glance: the first 8 are put in front of the published ones. The
        Auditor publishes all of them later, each in its place.

        Args:
            keys: of the segments, the most urgent first.
        """
        if keys:
            self._put_in_front(keys[:_TOLD_MAX])

    def _put_in_front(self, keys: Sequence[SegmentKey]) -> None:
        while True:
            try:
                if put_in_front(self._store, *keys):
                    return
            except UnknownOutcomeError:
                # A hint: twice is as good.
                continue

    def publish_window(
        self,
        marks: Mapping[SegmentKey, SegmentMark] | None = None,
        *,
        term: CheckVersion | None = None,
    ) -> int:
        """
        Publishes the order of repair for the workers (AR-R4, AR-R5), without segments
        that rest, are being repaired, or are of a paused set.

        Args:
            marks: in the queue; ``None``: they are read.
            term: the check of the Auditor's term.

        Returns:
            The number of pages.

        Raises:
            FencedError: the term has ended.
        """
        now_ms = self._clock_ms()
        held = {one.key.removeprefix(LOCKS) for one in self._store.scan(LOCKS)}
        paused = known_pauses(self._store).at(now_ms).set_texts
        keys, equal = in_order(
            {
                key: mark
                for key, mark in (self.list() if marks is None else marks).items()
                if mark.not_before_ms <= now_ms
                and key.text not in held
                and key.set_text not in paused
            }
        )
        old = self._store.scan(WINDOW)
        pages = pages_of(keys, equal, next_issue(old), len(held))
        for ops in window_commits([one.key for one in old], pages, term):
            if not self._settled(ops):
                assert term is not None
                raise FencedError(
                    f"the term of {term.key} has ended: another Auditor publishes the "
                    "window now"
                )
        return len(pages)

    def kick(self, by: str, *, force: bool = False) -> int:
        """
        Asks for an audit now; returns the version of the request.

        Args:
            by: who asks, for people.
            force: the brake does not stop this audit (AR-R7).
        """
        asked = {"at_ms": self._clock_ms(), "by": by}
        raw = encode_form({**asked, "force": True} if force else asked)
        while True:
            try:
                version = self._store.commit([Put(KICK, raw)])
            except UnknownOutcomeError:
                # A second request is as good as one.
                continue
            assert version is not None
            return version

    def enable(self) -> None:
        """
        Lets workers take segments again.
        """
        self._settled([Delete(DISABLED)])

    def disable(self, by: str) -> None:
        """
        Lets no worker take another segment, from this commit on; repairs that run go
        on.
        """
        raw = encode_form({"at_ms": self._clock_ms(), "by": by})
        self._settled([Put(DISABLED, raw)])

    def is_enabled(self) -> bool:
        """
        Returns whether workers may take segments.
        """
        return self._store.get(DISABLED) is None

    def settings(self, begin: RecoverySettings | None = None) -> RecoverySettings:
        """
        Returns the settings of the cluster.

        Args:
            begin: is written if there are none yet; ``None``: nothing is.

        Raises:
            FormatError: the record has a later form, or is damaged.
        """
        if begin is None:
            return read_settings(self._store)[0]
        return begin_settings(self._store, begin)

    def change_settings(self, changes: Mapping[str, object]) -> RecoverySettings:
        """
        Changes some settings by compare-and-set; returns all.

        Raises:
            InvalidError: there is no such setting, or it cannot have this value.
            FormatError: the record has a later form, or is damaged.
        """
        return change_settings(self._store, changes)

    def _settled(self, ops: Sequence[Op]) -> bool:
        """
        Commits what may be committed again; returns whether its checks held.
        """
        while True:
            try:
                return self._store.commit(ops) is not None
            except UnknownOutcomeError:
                # Again: puts and deletes give the same records, and a version that the
                # first one replaced is seen by the caller, which reads again.
                continue
