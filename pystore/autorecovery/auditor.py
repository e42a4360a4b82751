"""
The Auditor: finds what lacks a good copy, and marks it for the workers.

One process of the cluster audits; the others are candidates. A turn is bounded and
never sleeps: it asks the leading controller for all sets, keeps the records of lost
replicas, offers segments of filling replicas, takes the answers of replicas that were
looked at, and publishes the order of repair. Each of its writes proves its term.

What is not known marks nothing: no controller that answers under its authority, one
that leads for too short a time, a replica that does not answer.

Source: AR-R1 to AR-R9, AR-R14, AR-R17, AR-R21; BK-A7 to BK-A37; docs/autorecovery.md,
*The Auditor*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from pystore.autorecovery.audit_stamp import (
    CHECKED,
    AuditStamp,
    encode_stamp,
    read_stamp,
)
from pystore.autorecovery.auditor_status import AuditorStatus
from pystore.autorecovery.auditor_term import AuditorTerm
from pystore.autorecovery.damage_audit import DamageAudit
from pystore.autorecovery.fill_audit import FillAudit
from pystore.autorecovery.loss import LossPhase, ReplicaLoss
from pystore.autorecovery.loss_audit import (
    DueLoss,
    LossAudit,
    LossReplacements,
    NoReplacements,
)
from pystore.autorecovery.maintenance import (
    Maintenance,
    MaintenanceTarget,
    read_maintenance,
)
from pystore.autorecovery.mark_brake import BRAKE_ALARM
from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.autorecovery.queue_picture import QueuePicture
from pystore.autorecovery.record_form import decode_form, encode_form
from pystore.autorecovery.replica_key import ReplicaKey
from pystore.autorecovery.replica_looks import ReplicaLooks
from pystore.autorecovery.replica_peers import ClusterView, Controllers, ReplicaPeers
from pystore.autorecovery.segment_key import KICK, SPACE
from pystore.autorecovery.settings import RecoverySettings, read_settings
from pystore.autorecovery.wake import wake_marks
from pystore.errors import (
    FencedError,
    FormatError,
    StorageError,
    UnavailableError,
)
from pystore.records.ops import Delete, Op, Put
from pystore.records.record_store import RecordStore

__all__ = ["Auditor", "AuditorTurn"]

_TURN_MS = 1_000
_SOON_MS = 100  # while a replacement goes on
_LOCAL_MS = 500  # of a candidate whose looks cost no server a request
_SHARE = 3  # a turn takes at most a quarter of the time
_JUMP_MS = 2_000
_READ_ALL_MS = 5_000


@dataclass(frozen=True, slots=True)
class AuditorTurn:
    """
    What a turn ends with.

    Attributes:
        next_ms: how long until the next turn.
        waits_for: one line.
        leads: this process is the Auditor.
    """

    next_ms: int
    waits_for: str
    leads: bool


class Auditor:
    """
    The Auditor of a cluster, or a candidate for it. One thread.

    Args:
        store: the session; if it is lost, begin anew with another one.
        controllers: the leading controller.
        peers: the replicas.
        executor: asks them; it ends with the caller.
        name: of this process, for people.
        wall_ms: returns Unix time.
        steady_ms: returns the time of a clock that never steps, also while the machine
            sleeps.
        replacements: gets the losses that are due; ``None``: none can be replaced.
        begin: the settings of a cluster that has none yet.
    """

    def __init__(
        self,
        store: RecordStore,
        controllers: Controllers,
        peers: ReplicaPeers,
        executor: Executor,
        *,
        name: str,
        wall_ms: Callable[[], int],
        steady_ms: Callable[[], int],
        replacements: LossReplacements | None = None,
        begin: RecoverySettings | None = None,
    ) -> None:
        self._store = store
        self._controllers = controllers
        self._wall_ms = wall_ms
        self._steady_ms = steady_ms
        self._begin = begin or RecoverySettings()
        self._term = AuditorTerm(store, name)
        self._queue = UnderReplicationQueue(store, wall_ms)
        self._picture = QueuePicture(self._queue, self._term)
        self._looks = ReplicaLooks(peers, executor)
        self._losses = LossAudit(store, self._term, replacements or NoReplacements())
        self._fills = FillAudit(self._looks, self._picture)
        self._damage = DamageAudit(self._looks, self._picture)
        self._status = AuditorStatus(self._term, name)
        self._is_loaded = False
        self._clocks: tuple[int, int] | None = None
        self._unknown_views = 0
        self._token = self._proven_ms = 0
        self._settings, self._settings_version = self._begin, 0
        self._maintenance: dict[MaintenanceTarget, Maintenance] = {}
        self._maintenance_ms: int | None = None
        self._is_maintenance_stale = True
        self._kick, self._is_forced = 0, False
        self._is_enabled = True
        self._stamp = AuditStamp()
        self._alarm = ""
        self._problems: dict[str, str] = {}

    # -- what others may look at -------------------------------------------------

    @property
    def losses(self) -> Mapping[ReplicaKey, ReplicaLoss]:
        """
        The replicas that are dead, as of the last turn.
        """
        return self._losses.losses

    @property
    def losses_due(self) -> tuple[DueLoss, ...]:
        """
        The replicas that are to be made anew, as of the last turn.
        """
        return self._losses.due

    @property
    def numbers(self) -> dict[str, int]:
        """
        The present state in numbers (AR-R15).
        """
        return {
            "unknown_views": self._unknown_views,
            "unknown_looks": self._looks.unknown,
            "lost": len(self._losses.losses),
            "waiting": self._losses.count(LossPhase.WAITING),
            "in_maintenance": self._losses.count(LossPhase.MAINTENANCE),
            "due": len(self._losses.due),
            "filling": self._fills.filling,
            "fill_segments": self._fills.left,
            "short": self._fills.short,
            "looks_left": self._looks.left,
            "looks_refused": len(self._damage.refused),
            "marks": len(self._picture.marks),
            "marks_waiting": len(self._damage.waiting),
            "dead": len(self._picture.dead),
            **self._losses.numbers,
        }

    # -- turns ---------------------------------------------------------------------

    def step(self) -> AuditorTurn:
        """
        Makes one turn.

        Raises:
            SessionLostError: begin anew with another store; also `ClosedError`.
        """
        begun_ms = self._steady_ms()
        try:
            has_changed = self._has_changed()
            if not self._leads(begun_ms, has_changed=has_changed):
                self._is_loaded = False
                other = self._term.holder or "another process"
                next_ms = _LOCAL_MS if self._store.reads_locally else _TURN_MS
                return AuditorTurn(
                    next_ms, f"the end of the Auditor {other}", leads=False
                )
            if not self._is_loaded:
                self._load()
            waits_for = self._turn(has_changed=has_changed)
        except FencedError as error:
            # It writes nothing more, and is a candidate again.
            self._term.end()
            self._is_loaded = False
            return AuditorTurn(_TURN_MS, f"another term: {error}", leads=False)
        except (FormatError, StorageError, UnavailableError) as error:
            # Of the record store: nothing was changed, or the same is written again.
            return AuditorTurn(_TURN_MS, f"the record store: {error}", leads=True)
        taken_ms = max(0, self._steady_ms() - begun_ms)
        next_ms = max(self._pause_ms(), _SHARE * taken_ms)
        return AuditorTurn(next_ms, waits_for, leads=True)

    def _pause_ms(self) -> int:
        """
        Returns how long the next turn can wait: a loss that becomes due and a
        replacement that goes on wait for no other turn.
        """
        if not self._is_enabled:
            return _TURN_MS
        if self._losses.is_moving:
            return _SOON_MS
        due_ms = self._losses.next_due_ms
        left_ms = due_ms - self._wall_ms() if due_ms else _TURN_MS
        return min(max(left_ms, _SOON_MS), _TURN_MS)

    def _load(self) -> None:
        """
        Begins a term with what earlier Auditors left.
        """
        try:
            self._queue.settings(begin=self._begin)
        except FormatError as error:
            # An operator has to look at the record; the own settings hold until then.
            self._note("settings", str(error))
        self._stamp = read_stamp(self._store)
        self._losses.load()
        self._picture.load()
        self._fills.load()
        self._damage.load()
        self._looks.end_check()
        self._status.load()
        self._maintenance_ms = None
        self._is_maintenance_stale, self._clocks = True, None
        alarm = self._store.get(BRAKE_ALARM)
        self._alarm = "" if alarm is None else "a check was stopped earlier"
        self._is_loaded = True

    def _has_changed(self) -> bool:
        """
        Returns whether there was a commit since the last turn: one request, and most
        turns of an Auditor without work need no other one.
        """
        if not self._is_loaded:
            self._token = 0
            return True
        token = self._store.wait(self._token, 0, SPACE)
        # Of before the reads: what is committed meanwhile is read at the next turn.
        has_changed, self._token = token != self._token, token
        return has_changed

    def _leads(self, steady_ms: int, *, has_changed: bool) -> bool:
        """
        Returns whether this process is the Auditor. The record changes by a commit, or
        by a hand that passes by the record store: that is noticed a little later.
        """
        if (
            self._term.check is not None
            and not has_changed
            and steady_ms - self._proven_ms < _READ_ALL_MS
        ):
            return True
        self._proven_ms = steady_ms
        return self._term.begin()

    def _turn(self, *, has_changed: bool) -> str:
        now_ms, steady_ms = self._wall_ms(), self._steady_ms()
        self._notice_jump(now_ms, steady_ms)
        self._read_records(steady_ms, has_changed=has_changed)
        view, reason = self._view()
        if view is None:
            self._losses.unknown()
        else:
            # A request stays until it is known who is lost.
            is_asked = view.may_replace and self._is_asked()
            self._looks.follow(view)
            self._begin_check(now_ms, is_asked=is_asked)
            self._losses.turn(
                view,
                self._settings,
                self._maintenance,
                now_ms,
                is_asked=is_asked,
                is_enabled=self._is_enabled,
            )
            if self._is_enabled:
                self._looks.ask(steady_ms)
            self._mark(view, now_ms, steady_ms)
            self._end_check(now_ms)
            if view.may_replace:
                self._stamp_requests()
        self._picture.publish(now_ms, steady_ms)
        waits_for = reason or self._waits_for()
        texts = {"alarm": self._alarm} if self._alarm else {}
        if self._problems:
            texts["problem"] = "; ".join(self._problems.values())
        if reason:
            texts["unknown"] = reason
        for replica, why in sorted(self._fills.blocked.items())[:1]:
            texts["fill"] = f"{replica.text} is not filled: {why}"
        self._status.tell(waits_for, self.numbers, texts, now_ms, steady_ms)
        return waits_for

    def _view(self) -> tuple[ClusterView | None, str]:
        """
        Returns what the leading controller tells, or why it is not known.
        """
        try:
            view = self._controllers.all_sets()
        except UnavailableError as error:
            # Unknown is not lost (AR-R6): it marks nothing.
            self._unknown_views += 1
            return None, f"an answer of the leading controller: {error}"
        if not view.may_replace:
            self._unknown_views += 1
            return view, "a leading controller that has led for long enough to know"
        return view, ""

    def _notice_jump(self, now_ms: int, steady_ms: int) -> None:
        """
        The clock was set: what replicas have been waited for stays the same.
        """
        if self._clocks is not None:
            by_ms = (now_ms - self._clocks[0]) - (steady_ms - self._clocks[1])
            if abs(by_ms) > _JUMP_MS:
                self._losses.shift(by_ms)
        self._clocks = now_ms, steady_ms

    def _read_records(self, steady_ms: int, *, has_changed: bool) -> None:
        """
        Reads what operators and workers write, if there was a commit.
        """
        if has_changed:
            self._picture.changed()
            self._is_maintenance_stale = True
            self._read_requests()
        has_rested = (
            self._maintenance_ms is None
            or steady_ms - self._maintenance_ms >= _READ_ALL_MS
        )
        if self._is_maintenance_stale and has_rested:
            damaged: list[str] = []
            self._maintenance = read_maintenance(self._store, damaged)
            self._maintenance_ms, self._is_maintenance_stale = steady_ms, False
            self._note("maintenance", damaged[0] if damaged else "")
        self._picture.refresh(steady_ms)

    def _read_requests(self) -> None:
        self._is_enabled = self._queue.is_enabled()
        try:
            self._settings, self._settings_version = read_settings(self._store)
            found = self._store.get(KICK)
            self._kick = 0 if found is None else found.version
            if found is not None:
                asked = decode_form(found.value, KICK).values
                self._is_forced = asked.get("force") is True
        except FormatError as error:
            # Those that were read before hold.
            self._note("settings", str(error))
        else:
            self._note("settings", "")

    def _note(self, what: str, problem: str) -> None:
        """
        Keeps why some records cannot be read; empty: they can.
        """
        self._problems.pop(what, None)
        if problem:
            self._problems[what] = problem

    def _is_asked(self) -> bool:
        """
        Returns whether an operator asked for an audit that was not made yet: by a kick,
        or by the same settings again (BK-A30).
        """
        stamp = self._stamp
        is_kicked = self._kick > stamp.kick
        is_same = (
            self._settings_version > stamp.settings > 0
            and self._settings.values == dict(stamp.values)
        )
        return is_kicked or is_same

    def _stamp_requests(self) -> None:
        """
        What was asked is done: the next Auditor does not do it again.
        """
        stamp = replace(
            self._stamp,
            kick=max(self._kick, self._stamp.kick),
            settings=self._settings_version,
            values=self._settings.values,
        )
        if stamp != self._stamp:
            self._write_stamp(stamp)

    def _write_stamp(self, stamp: AuditStamp) -> None:
        self._term.write([Put(CHECKED, encode_stamp(stamp))])
        self._stamp = stamp

    # -- looks -----------------------------------------------------------------------

    def _begin_check(self, now_ms: int, *, is_asked: bool) -> None:
        if not self._is_enabled:
            # What was looked at so far counts for nothing (BK-A37, BK-A117).
            self._looks.end_check()
            return
        is_forced = is_asked and self._is_forced and self._kick > self._stamp.kick
        wait_ms = self._stamp.wait_ms(now_ms, self._settings.broker_check_s)
        is_due = not self._looks.is_checking and not wait_ms and not self._alarm
        if is_asked or is_due:
            self._damage.begin_check(is_forced=is_forced)

    def _end_check(self, now_ms: int) -> None:
        alarm = self._damage.brake.tripped
        if alarm and alarm != self._alarm:
            raw = encode_form({"at_ms": now_ms, "what": alarm})
            self._term.write([Put(BRAKE_ALARM, raw)])
            self._alarm = alarm
        if self._looks.is_finished and self._is_enabled:
            ops: list[Op] = [Delete(BRAKE_ALARM)] if self._alarm else []
            stamp = replace(self._stamp, finished_ms=now_ms)
            self._term.write([*ops, Put(CHECKED, encode_stamp(stamp))])
            self._stamp, self._alarm = stamp, ""
            self._looks.end_check()

    def _mark(self, view: ClusterView, now_ms: int, steady_ms: int) -> None:
        """
        Marks what fills and looks found, the most urgent first.
        """
        # Answers first: what they tell of a replica that is to be filled counts now.
        damage = self._damage.turn(view, self._settings, steady_ms)
        fills = self._fills.turn(view, self._settings, steady_ms)
        if not self._is_enabled:
            self._fills.withdraw(fills)
            self._damage.wait_for_room(damage)
            return
        marks, room = [*damage, *fills], self._settings.queue_window
        _, left = self._picture.offer(marks, room, now_ms)
        if left:
            late = {id(one) for one in left}
            self._damage.wait_for_room(one for one in damage if id(one) in late)
            self._fills.withdraw([one for one in fills if id(one) in late])
        returned = self._damage.take_returned()
        if returned:
            wake_marks(self._store, returned, now_ms, self._term.check)
            self._picture.returned()

    def _waits_for(self) -> str:
        """
        Returns the first of these that holds.
        """
        waits = (
            (not self._is_enabled, "an operator, who disabled AutoRecovery"),
            (self._alarm, "an operator: the brake stopped a check"),
            (self._losses.due, "replacements of lost replicas"),
            (self._looks.is_checking, "answers of replicas in a check of all of them"),
            (self.losses, "the return of lost replicas, or the end of their delay"),
            (self._picture.marks, "workers"),
        )
        return next((text for holds, text in waits if holds), "something to do")
