"""
Keeps the records of the replicas that are dead, and says which of them are due.

Source: AR-R1 to AR-R3; BK-A22 to BK-A35; docs/autorecovery.md, *The Auditor*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from pystore.autorecovery.auditor_term import AuditorTerm
from pystore.autorecovery.copies import broker_of
from pystore.autorecovery.loss import (
    LossPhase,
    ReplicaLoss,
    decode_loss,
    encode_loss,
    loss_standing,
    losses_after,
)
from pystore.autorecovery.maintenance import (
    Maintenance,
    MaintenanceTarget,
    away_until_ms,
)
from pystore.autorecovery.replica_key import LOST, ReplicaKey
from pystore.autorecovery.replica_peers import ClusterView
from pystore.autorecovery.settings import RecoverySettings
from pystore.controller.protocol.set_descriptions import SetDescription
from pystore.errors import FormatError
from pystore.records.ops import CheckVersion, Delete, Op, Put, commit_bytes
from pystore.records.record_store import RecordStore

__all__ = ["NO_HOST", "DueLoss", "LossAudit", "LossReplacements", "NoReplacements"]

NO_HOST = "no host can take it"
"""Why a due loss stays, where nothing makes replicas."""

_COMMIT_BYTES = 600_000
_COMMIT_OPS = 400


@dataclass(frozen=True, slots=True)
class DueLoss:
    """
    A replica that is to be made anew.

    Attributes:
        replica: that is dead.
        loss: its record.
        description: of its set, as told last.
    """

    replica: ReplicaKey
    loss: ReplicaLoss
    description: SetDescription


class LossReplacements(Protocol):
    """
    Makes lost replicas anew. For the Auditor's thread; each call is bounded in time.
    """

    @property
    def is_moving(self) -> bool:
        """
        Whether a replacement went on at the last call or shortly before: probably it
        can go on soon.
        """
        ...

    @property
    def numbers(self) -> Mapping[str, int]:
        """
        What else it has to tell, by name: how replicas lie on hosts.
        """
        ...

    def replace(
        self,
        due: Sequence[DueLoss],
        view: ClusterView,
        settings: RecoverySettings,
        term: CheckVersion,
    ) -> Mapping[ReplicaKey, str]:
        """
        Goes on with the replacement of all losses that are due, and with whatever else
        it has begun. It is called in each turn, also if nothing is due.

        Args:
            due: the losses.
            view: of all sets.
            settings: at this moment.
            term: the check of the Auditor's term.

        Returns:
            One line for each loss: what is done, or why nothing is.

        Raises:
            FencedError: the term has ended.
        """
        ...


class NoReplacements:
    """
    Makes none: there are no hosts of which it knows. It is `LossReplacements`.
    """

    is_moving = False

    @property
    def numbers(self) -> Mapping[str, int]:
        """
        See `LossReplacements.numbers`.
        """
        return {}

    def replace(
        self,
        due: Sequence[DueLoss],
        view: ClusterView,  # noqa: ARG002
        settings: RecoverySettings,  # noqa: ARG002
        term: CheckVersion,  # noqa: ARG002
    ) -> Mapping[ReplicaKey, str]:
        """
        See `LossReplacements.replace`.
        """
        return {one.replica: NO_HOST for one in due}


class LossAudit:
    """
    The losses, as one Auditor knows them. One thread.

    Args:
        store: of the records.
        term: of the Auditor, which alone writes them.
        replacements: gets those that are due.

    Attributes:
        losses: by replica.
        due: the replicas that are to be made anew.
        next_due_ms: when the next delay is over, Unix time, as of the last turn; 0:
            no loss waits for one.
        damaged: one line for each record that could not be read, and was left.
    """

    def __init__(
        self, store: RecordStore, term: AuditorTerm, replacements: LossReplacements
    ) -> None:
        self._store = store
        self._term = term
        self._replacements = replacements
        self.losses: dict[ReplicaKey, ReplicaLoss] = {}
        self.due: tuple[DueLoss, ...] = ()
        self.next_due_ms = 0
        self.damaged: tuple[str, ...] = ()
        self._counts: Counter[LossPhase] = Counter()

    @property
    def is_moving(self) -> bool:
        """
        As of `LossReplacements`.
        """
        return self._replacements.is_moving

    def load(self) -> None:
        """
        Reads the records: an earlier Auditor's waiting goes on.
        """
        self.losses, damaged = {}, []
        for record in self._store.scan(LOST):
            try:
                if record.damage:
                    raise FormatError(record.damage, path=record.key)
                key = ReplicaKey.parse(record.key.removeprefix(LOST))
                self.losses[key] = decode_loss(record.value, record.key)
            except FormatError as error:
                # One record must not hide the others. It is written again only if the
                # replica is still dead.
                damaged.append(str(error))
        self.damaged = tuple(damaged)

    def shift(self, by_ms: int) -> None:
        """
        The clock was set: what has been waited stays the same.
        """
        self._write(
            {
                key: replace(
                    one,
                    since_ms=max(1, one.since_ms + by_ms),
                    ended_ms=one.ended_ms and max(1, one.ended_ms + by_ms),
                    due_ms=one.due_ms and max(1, one.due_ms + by_ms),
                )
                for key, one in self.losses.items()
            }
        )

    def turn(
        self,
        view: ClusterView,
        settings: RecoverySettings,
        maintenance: Mapping[MaintenanceTarget, Maintenance],
        now_ms: int,
        *,
        is_asked: bool,
        is_enabled: bool,
    ) -> None:
        """
        Takes a word of the controller: writes what is new, and hands on what is due.

        Args:
            view: of all sets.
            settings: at this moment.
            maintenance: all records.
            now_ms: Unix time.
            is_asked: an operator asked for an audit now, which ends the waiting.
            is_enabled: otherwise losses are known, and none is due.
        """
        losses = losses_after(self.losses, view, now_ms)
        if is_asked:
            losses = {key: replace(one, ended_ms=now_ms) for key, one in losses.items()}
        due: list[DueLoss] = []
        waiting_ms: list[int] = []
        self._counts.clear()
        missing = _missing(losses, view)
        for key, one in losses.items():
            found = view.sets.get((key.cluster, key.set_name))
            if found is None:
                # Its record is unreadable.
                continue
            stands = loss_standing(
                one,
                settings,
                now_ms,
                until_ms=_until_ms(maintenance, key, found),
                missing=missing[key.cluster, key.set_name],
            )
            self._counts[stands.phase] += 1
            if stands.phase is LossPhase.WAITING:
                waiting_ms.append(stands.at_ms)
            if not view.may_replace:
                # It may have returned: nothing is done about it.
                continue
            if stands.phase is LossPhase.DUE and is_enabled:
                losses[key] = replace(one, due_ms=one.due_ms or stands.at_ms)
                due.append(DueLoss(key, losses[key], found))
            elif one.due_ms or one.why:
                losses[key] = replace(one, due_ms=0, why="")
        term = self._term.check
        if is_enabled and term is not None:
            told = self._replacements.replace(due, view, settings, term)
            for each in due:
                why = told.get(each.replica, NO_HOST)
                losses[each.replica] = replace(each.loss, why=why)
        self.due = tuple(due)
        self.next_due_ms = min(waiting_ms, default=0)
        self._write(losses)

    @property
    def numbers(self) -> Mapping[str, int]:
        """
        What the replacements tell.
        """
        return self._replacements.numbers

    def unknown(self) -> None:
        """
        The controller told nothing: nothing is known to be due.
        """
        self.due, self.next_due_ms = (), 0

    def count(self, phase: LossPhase) -> int:
        """
        Returns how many losses stood so at the last turn.
        """
        return self._counts[phase]

    def _write(self, losses: dict[ReplicaKey, ReplicaLoss]) -> None:
        """
        Writes what differs from the records, and keeps it.
        """
        ops: list[Op] = [
            Put(key.lost, encode_loss(one))
            for key, one in losses.items()
            if self.losses.get(key) != one
        ]
        ops += [Delete(key.lost) for key in self.losses.keys() - losses.keys()]
        batch: list[Op] = []
        size = 0
        for op in ops:
            more = commit_bytes([op])
            if batch and (len(batch) == _COMMIT_OPS or size + more > _COMMIT_BYTES):
                self._term.write(batch)
                batch, size = [], 0
            batch.append(op)
            size += more
        if batch:
            self._term.write(batch)
        # Only now: after an error the next turn writes them again.
        self.losses = losses


def _until_ms(
    maintenance: Mapping[MaintenanceTarget, Maintenance],
    key: ReplicaKey,
    one: SetDescription,
) -> int:
    """
    Returns the end of a replica's maintenance; 0: it has none.
    """
    if not maintenance:
        return 0
    broker = broker_of(one, key.broker_id)
    return away_until_ms(
        maintenance,
        host="" if broker is None else broker.host,
        cluster=key.cluster,
        set_name=key.set_name,
        broker_id=key.broker_id,
    )


def _missing(
    losses: Mapping[ReplicaKey, ReplicaLoss], view: ClusterView
) -> Counter[tuple[str, str]]:
    """
    Returns how many replicas of each set are lost, learners left out: they were never
    counted as a copy.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for key in losses:
        one = view.sets.get((key.cluster, key.set_name))
        broker = None if one is None else broker_of(one, key.broker_id)
        if broker is not None and not broker.is_learner:
            counts[key.cluster, key.set_name] += 1
    return counts
