"""
What is to be done next about one replacement. Pure.

Each step is a change of the record, a request to a host or to the controllers, or a
wait with its reason. Requests ask for a state, and the next step looks whether it is
there: no step depends on an answer. So a crash anywhere costs at most a request.

The new replica is whole and admitted before the old one goes; until then the
replacement may be cancelled, and the new replica is removed again. A good copy goes
only if the set has enough without it (I5).

Source: D1, D2; I3, I5; AR-R22, AR-R26; docs/autorecovery.md, *Replacing a replica*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pystore.autorecovery.host_peers import CarriedReplica, RecoveryHost
from pystore.autorecovery.replacement_action import (
    AddReplica,
    ChangeReplacement,
    CleanBroker,
    EndReplacement,
    HandMastership,
    MakeLearner,
    RemoveReplica,
    ReplacementStep,
    WaitFor,
)
from pystore.autorecovery.replacement_record import (
    LeftReplica,
    Replacement,
    ReplacementKey,
    ReplacementPhase,
    ReplacementReason,
    WaitReason,
)
from pystore.autorecovery.replacement_state import (
    ReplacementFacts,
    ReplacementState,
    is_wiped,
)
from pystore.autorecovery.replacement_target import choose_host, host_of, owner_of
from pystore.autorecovery.set_copies import (
    living_master,
    missing_without,
    successor_of,
    why_not_whole,
)
from pystore.controller.model.replica import LogStanding
from pystore.controller.protocol.set_descriptions import BrokerDescription

__all__ = ["next_step"]

_SETTLE_MS = 15_000
"""A request without an answer may be carried out so much later: a host ends the call
before (F11)."""

_NAMES_MAX = 5
_TRIES_MAX = 5
_FAILED_MAX = 8

_ADDING = (ReplacementPhase.PLANNED, ReplacementPhase.ADDED, ReplacementPhase.FILLING)


_NO_MASTER = WaitFor("the set has no master that is alive", WaitReason.NO_MASTER)


def next_step(
    key: ReplacementKey, one: Replacement, facts: ReplacementFacts
) -> ReplacementStep:
    """
    Returns the next step.

    Args:
        key: of the replica that is replaced.
        one: the record.
        facts: at this moment.
    """
    if facts.described is None:
        return WaitFor(
            "the record of the set is unreadable: restore or rebuild it",
            WaitReason.UNREADABLE_SET,
        )
    return _Replacing(key, one, facts, facts.described).step()


class _Replacing(ReplacementState):
    """
    The steps of one replacement.
    """

    __slots__ = ()

    def step(self) -> ReplacementStep:
        phase = self.one.phase
        if self.has_ended and phase in _ADDING:
            # The new replica goes, unless it turns out to be needed.
            return self._to(ReplacementPhase.CLEARING, cancelled=True, left=self.new)
        if phase in _ADDING and self.one.target in self.facts.around.drains:
            return self._abandon("it is emptied")
        is_over = phase is ReplacementPhase.CLEARING
        for left in self.one.left:
            step = self._clear(left)
            if step is not None and (is_over or not isinstance(step, WaitFor)):
                return step
        steps = {
            ReplacementPhase.WANTED: self._wanted,
            ReplacementPhase.PLANNED: self._planned,
            ReplacementPhase.ADDED: self._added,
            ReplacementPhase.FILLING: self._filling,
            ReplacementPhase.RETIRING: self._retiring,
            ReplacementPhase.CLEARING: self._clearing,
        }
        return steps[phase]()

    # -- phases -----------------------------------------------------------------

    def _wanted(self) -> ReplacementStep:
        old = self.old
        is_gone = old is None and self.one.reason is not ReplacementReason.MISSING
        if self.has_ended or (is_gone and not self.one.above_id):
            # An operator may have cleaned it before anything was done.
            return self._clearing()
        step = None if old is None else self._wanted_without(old)
        if step is not None:
            return step
        if living_master(self.described) is None:
            return _NO_MASTER
        around = self.facts.around
        owner = owner_of(self.key, around.replacements, around.hosts)
        if owner is not None:
            return WaitFor(f"the replacement of broker {owner.broker_id} has made it")
        return self._choice()

    def _wanted_without(self, old: BrokerDescription) -> ReplacementStep | None:
        """
        Returns the step that comes before the choice of a host; ``None``: none does.
        """
        if self.one.reason is ReplacementReason.LOST:
            if old.is_alive:
                # It is back, with another store.
                wiped = replace(self.one, reason=ReplacementReason.WIPED)
                return ChangeReplacement(wiped)
            if not self.facts.may_replace:
                return _unknown(old.broker_id)
        host = host_of(self.facts.around.hosts, self.key)
        if self.one.old_host and host is None and living_master(self.described):
            # It was removed from its host, and the new one failed afterwards.
            return self._clean(old)
        return None

    def _choice(self) -> ReplacementStep:
        around = self.facts.around
        running = sum(it.phase.is_running for it in around.replacements.values())
        if running >= around.settings.replacements_at_once:
            return WaitFor(f"{running} replacements run, which are the most at once")
        choice = choose_host(self.key, self.one, around)
        if not choice.host:
            is_move = self.one.reason is ReplacementReason.MISPLACED
            if is_move and not choice.waits and not self.one.left:
                # It is where it can be; a loss or a drain is not to wait for it.
                return EndReplacement("has no host on another rack")
            reason = None if choice.waits else WaitReason.NO_TARGET
            return WaitFor(f"no host can take it: {choice.text}", reason)
        highest = max((it.broker_id for it in self.described.brokers), default=0)
        above = self.one.above_id or max(highest, self.key.broker_id)
        own = host_of(around.hosts, self.key)
        left = None
        if own is not None and own.name == choice.host:
            # Its empty store goes before a new one comes (I3).
            left = LeftReplica(own.name, self.key.broker_id)
        step = self._to(ReplacementPhase.PLANNED, target=choice.host, left=left)
        old_host = self.one.old_host or (own.name if own is not None else "")
        return ChangeReplacement(
            replace(step.record, above_id=above, old_host=old_host)
        )

    def _planned(self) -> ReplacementStep:
        target = self.target
        if target is None or not target.is_alive:
            return self._lost_target("the host is not alive")
        has = target.replica_of(*self.key.names)
        if has is not None:
            return self._planned_there(target, has)
        old = self.old
        if old is not None and self.is_old_left(target.name):
            return self._clean(old)
        if self.one.tries >= _TRIES_MAX:
            return self._abandon(self.one.problem or "it does not add the replica")
        return AddReplica(target.name)

    def _planned_there(
        self, target: RecoveryHost, has: CarriedReplica
    ) -> ReplacementStep:
        """
        The host has a replica of the set: the new one, or the wiped one.
        """
        if self.is_new(has.broker_id):
            return self._to(ReplacementPhase.ADDED)
        old = self.old
        is_old = has.broker_id == self.key.broker_id
        if is_old and (old is None or old.standing is LogStanding.WIPED):
            if self.one.tries >= _TRIES_MAX:
                return self._abandon(self.one.problem or "it does not remove a replica")
            return RemoveReplica(target.name, deletes_store=True)
        # It got another replica of the set meanwhile (I3).
        return self._to(ReplacementPhase.WANTED, target="")

    def _added(self) -> ReplacementStep:
        target = self.target
        if target is None or not target.is_alive:
            return self._lost_target("the host is not alive")
        has = target.replica_of(*self.key.names)
        if has is None:
            return self._to(ReplacementPhase.PLANNED)
        new = None if has.broker_id is None else self.broker(has.broker_id)
        if new is None or not new.is_alive:
            if self.phase_lasts:
                return self._abandon("the new replica does not register")
            return WaitFor("the new replica has not registered yet")
        old = self.old
        if old is not None and old.is_learner and not new.is_learner:
            return MakeLearner(new.broker_id, self.described.version)
        return self._to(ReplacementPhase.FILLING, new_id=new.broker_id)

    def _filling(self) -> ReplacementStep:
        new = self.broker(self.one.new_id)
        if new is None:
            return self._abandon("an operator cleaned it")
        why = why_not_whole(new)
        if not why:
            return self._to(ReplacementPhase.RETIRING)
        if self.is_dead(new, self.patience_ms) or is_wiped(new):
            return self._abandon(f"broker {new.broker_id} {why}")
        return WaitFor(f"broker {new.broker_id} {why}")

    def _retiring(self) -> ReplacementStep:
        old = self.old
        if old is None:
            return self._retired()
        new = self.broker(self.one.new_id)
        if new is None or why_not_whole(new):
            return self._to(ReplacementPhase.FILLING)
        if living_master(self.described) is None:
            return _NO_MASTER
        host = host_of(self.facts.around.hosts, self.key)
        return (self._retire_living if old.is_alive else self._retire_dead)(old, host)

    def _retire_dead(
        self, old: BrokerDescription, host: RecoveryHost | None
    ) -> ReplacementStep:
        if not self.facts.may_replace:
            return _unknown(old.broker_id)
        if host is not None and host.is_alive:
            # It would start again with its host.
            return RemoveReplica(host.name, deletes_store=False)
        if host is not None and not self.is_old_left(host.name):
            left = LeftReplica(host.name, old.broker_id, keeps_store=True)
            return ChangeReplacement(replace(self.one, left=(*self.one.left, left)))
        return self._clean(old)

    def _retire_living(
        self,
        old: BrokerDescription,
        host: RecoveryHost | None,
    ) -> ReplacementStep:
        blocked = self._why_needed(old.broker_id)
        if blocked is not None:
            return blocked
        step = self._hand_over(old)
        if step is not None:
            return step
        if host is None:
            return WaitFor(
                f"broker {old.broker_id} is alive and no host has it: stop it, or wait "
                "until its lease is over",
                WaitReason.NOT_HOSTED,
            )
        if not host.is_alive:
            return WaitFor(f"host {host.name} does not answer")
        return RemoveReplica(host.name, deletes_store=False)

    def _hand_over(self, leaving: BrokerDescription) -> ReplacementStep | None:
        """
        Returns the step that takes the mastership from a broker before it goes;
        ``None``: it is no master.
        """
        if leaving.broker_id != self.described.master_id:
            return None
        going = {leaving.broker_id, *self.of_set, *self.going}
        successor = successor_of(self.described, going)
        if successor is None:
            return WaitFor(
                f"broker {leaving.broker_id} is the master, and no member of pystore "
                "can take the mastership over",
                WaitReason.TOO_FEW_COPIES,
            )
        return HandMastership(leaving.address, successor.broker_id)

    def _retired(self) -> ReplacementStep:
        """
        The old broker is no member any more; its host may still have its replica.
        """
        host = host_of(self.facts.around.hosts, self.key)
        if host is None or self.is_old_left(host.name):
            return self._to(ReplacementPhase.CLEARING)
        left = LeftReplica(host.name, self.key.broker_id, keeps_store=True)
        return self._to(ReplacementPhase.CLEARING, left=left)

    def _clearing(self) -> ReplacementStep:
        if not self.one.left:
            is_back = self.one.cancelled or self.has_ended
            return EndReplacement("is not needed any more" if is_back else "is done")
        names = ", ".join(it.host for it in self.one.left)
        return WaitFor(f"what is left on {names} is removed once the host answers")

    # -- what is left -------------------------------------------------------------

    def _clear(self, left: LeftReplica) -> ReplacementStep | None:
        """
        Returns the step that removes a replica; ``None``: none is possible now.
        """
        host = self.facts.around.hosts.get(left.host)
        has = None
        if host is not None:
            has = host.replica_of(*self.key.names)
        if has is not None and not self.is_left_one(left, has.broker_id):
            has = None
        if has is not None and not left.broker_id:
            return self._name_left(left, has)
        number = left.broker_id
        broker = self.broker(number)
        if broker is None:
            return self._clear_host(left, host, has)
        if number == self.key.broker_id:
            return self._clear_old(left)
        step = self._keep(left, broker) if broker.is_alive else None
        if step is not None:
            return step
        if has is not None and host is not None and host.is_alive:
            return RemoveReplica(host.name, deletes_store=not left.keeps_store)
        return self._clean(broker) if self.is_dead(broker) else None

    def _name_left(
        self, left: LeftReplica, has: CarriedReplica
    ) -> ReplacementStep | None:
        """
        The id has to be known before the replica is removed: it is cleaned, too.
        """
        if has.broker_id is not None:
            others = tuple(it for it in self.one.left if it != left)
            named = replace(left, broker_id=has.broker_id)
            return ChangeReplacement(replace(self.one, left=(*others, named)))
        if not self.phase_lasts:
            return WaitFor(f"the replica on {left.host} gets its id before it goes")
        host = self.facts.around.hosts.get(left.host)
        return self._clear_host(left, host, has)

    def _clear_old(self, left: LeftReplica) -> ReplacementStep | None:
        """
        The same for the replica that is replaced, which is still a member: it goes as
        such, or stays.
        """
        if self.one.phase is ReplacementPhase.CLEARING:
            return self._without(left)
        old = self.old
        if self.one.phase is not ReplacementPhase.WANTED or old is None:
            return None
        return self._without(left)

    def _clear_host(
        self,
        left: LeftReplica,
        host: RecoveryHost | None,
        has: CarriedReplica | None,
    ) -> ReplacementStep | None:
        """
        The same for a replica that is no member of the set, or not yet.
        """
        if host is not None and not host.is_alive:
            # It may come back, and start the replica.
            return None
        if host is not None and has is not None:
            return RemoveReplica(host.name, deletes_store=not left.keeps_store)
        is_sent = self.one.phase_ms + _SETTLE_MS > self.facts.now_ms
        if is_sent and not left.broker_id and host is not None:
            return WaitFor("a request to add a replica may still be carried out")
        return self._without(left)

    def _without(self, left: LeftReplica) -> ChangeReplacement:
        rest = tuple(it for it in self.one.left if it != left)
        return ChangeReplacement(replace(self.one, left=rest))

    def _keep(
        self, left: LeftReplica, broker: BrokerDescription
    ) -> ReplacementStep | None:
        """
        Returns the step that keeps a replica which is needed; ``None``: it may go.
        """
        if self.is_missed and not why_not_whole(broker):
            # It became whole after all, and the set lacks it otherwise.
            return self._without(left)
        blocked = self._why_needed(broker.broker_id)
        if blocked is None:
            return self._hand_over(broker)
        old = self.old
        is_retiring = self.one.phase is ReplacementPhase.RETIRING
        if old is None or why_not_whole(broker) or is_retiring:
            return blocked
        # It became whole after all, and the set needs it more than the old one.
        rest = [it for it in self.one.left if it != left]
        if self.new is not None:
            rest.append(self.new)
        kept = replace(self.one, cancelled=False, left=tuple(rest))
        return _changed(
            kept,
            ReplacementPhase.RETIRING,
            self.facts.now_ms,
            target=left.host,
            new_id=broker.broker_id,
        )

    def _why_needed(self, leaving: int) -> WaitFor | None:
        """
        Returns why a broker cannot leave its set yet; ``None``: it can.
        """
        missing = missing_without(self.described, leaving, self.places, self.going)
        if missing:
            return WaitFor(
                f"broker {leaving} stays until the set has enough good copies: "
                f"{_named(missing)}",
                WaitReason.TOO_FEW_COPIES,
            )
        damaged = self.facts.damaged(frozenset({leaving}))
        if damaged:
            return WaitFor(
                f"broker {leaving} stays until these segments are repaired: "
                f"{_named(damaged)}",
                WaitReason.DAMAGED_SEGMENTS,
            )
        return None

    # -- steps --------------------------------------------------------------------

    def _to(
        self,
        phase: ReplacementPhase,
        *,
        left: LeftReplica | None = None,
        cancelled: bool = False,
        target: str | None = None,
        new_id: int | None = None,
    ) -> ChangeReplacement:
        one = self.one
        if left is not None:
            one = replace(one, left=(*one.left, left))
        if phase is ReplacementPhase.CLEARING:
            target, new_id = target or "", new_id or 0
        one = replace(one, cancelled=one.cancelled or cancelled)
        return _changed(one, phase, self.facts.now_ms, target=target, new_id=new_id)

    def _abandon(self, why: str) -> ChangeReplacement:
        """
        Another host is chosen; what the first one has is removed.
        """
        step = self._to(ReplacementPhase.WANTED, left=self.new, target="", new_id=0)
        text = f"host {self.one.target} failed: {why}"
        failed = [it for it in self.one.failed if it != self.one.target]
        last = (*failed, self.one.target)[-_FAILED_MAX:]
        return ChangeReplacement(replace(step.record, problem=text, failed=last))

    def _lost_target(self, why: str) -> ReplacementStep:
        """
        The host of the new replica does not answer.
        """
        if self.one.phase is ReplacementPhase.PLANNED and not self.one.tries:
            return self._to(ReplacementPhase.WANTED, target="")
        if self.phase_lasts:
            return self._abandon(why)
        return WaitFor(f"host {self.one.target}: {why}")

    def _clean(self, one: BrokerDescription) -> ReplacementStep:
        if not self.is_dead(one):
            return _unknown(one.broker_id)
        return CleanBroker(one.broker_id, self.described.version)


def _changed(
    one: Replacement,
    phase: ReplacementPhase,
    now_ms: int,
    *,
    target: str | None,
    new_id: int | None,
) -> ChangeReplacement:
    return ChangeReplacement(
        replace(
            one,
            phase=phase,
            phase_ms=now_ms,
            target=one.target if target is None else target,
            new_id=one.new_id if new_id is None else new_id,
            tries=0,
            not_before_ms=0,
            problem="",
            waits_for=None,
        )
    )


def _unknown(broker_id: int) -> WaitFor:
    return WaitFor(f"whether broker {broker_id} is dead is not known yet")


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else ""
    return ", ".join(names[:_NAMES_MAX]) + more
