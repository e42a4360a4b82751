"""
The election policy. Pure.

The policy elects the best of the members and candidates that are alive and sound, and
whose log has the set's records from their begin on: then no message with ack `all` is
lost. If there is none, it elects one that has restarted, if a member that is filling
proves that it has lost none of them, either (B11). If every one of them has restarted
and may have lost its end, it elects the one with the longest log, which has all
messages with ack `all-synced` (B3). Otherwise, and only if unclean elections are
allowed, it elects any live broker.

The order, best first: a healthy disk and not resigned, then the higher epoch, the
longer log, the preferred broker, the lower priority number, a member before a
candidate, the lower id.

Source: RMQ-R64 to RMQ-R73; B2, B3, B6, B7, B11, B17.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pystore.controller.decide.told_epochs import told_epoch
from pystore.controller.model.facts import Facts
from pystore.controller.model.log_end import NOWHERE, LogEnd
from pystore.controller.model.replica import LogStanding, RegisteredBroker
from pystore.controller.model.state import Cause, LossRange, SetState
from pystore.remoting.codes import LOWEST_PRIORITY
from pystore.replicaset import Member, ids_of

__all__ = [
    "ElectionChoice",
    "best",
    "choose",
    "electable",
    "founder",
    "further_than_founder",
    "is_filling",
    "whole_and_filling",
]


@dataclass(frozen=True, slots=True)
class ElectionChoice:
    """
    The elected master and the consequences.

    Attributes:
        master: with its incarnation.
        candidates: they hold acks back under this master (B7).
        losses: the ranges that the election may lose.
    """

    master: Member
    candidates: frozenset[Member] = frozenset()
    losses: tuple[LossRange, ...] = ()


def choose(
    state: SetState, facts: Facts, named_id: int | None, *, is_unclean: bool
) -> ElectionChoice | None:
    """
    Returns the new master; ``None``: no broker can be elected.

    Args:
        state: of the set.
        facts: at this moment.
        named_id: the only eligible broker; ``None``: the best broker.
        is_unclean: any live broker may be elected if no better one can be.
    """
    some = electable(state, facts)
    elected = best(state, facts, some, named_id)
    if elected is not None:
        return ElectionChoice(elected.member, _candidates(elected, some))
    proofs = _proofs(state, facts)
    elected = _proved(state, facts, proofs, named_id)
    if elected is not None:
        return ElectionChoice(elected.member, _candidates(elected, proofs))
    elected = _after_power_cut(state, facts, named_id)
    if elected is not None:
        staying = frozenset(
            one for one in state.listed if one.broker_id != elected.broker_id
        )
        return ElectionChoice(
            elected.member, staying, _losses(state, facts, elected, "power")
        )
    if not is_unclean:
        return None
    alive = (
        one for one in state.replicas if facts.is_alive(one) and not one.is_learner
    )
    elected = best(state, facts, alive, named_id)
    if elected is None:
        return None
    losses = _losses(state, facts, elected, "unclean")
    return ElectionChoice(elected.member, losses=losses)


def founder(state: SetState, facts: Facts, broker_id: int) -> ElectionChoice | None:
    """
    Returns the first master of a set: no broker holds any message yet, so any live
    broker is fit (RMQ-R48, RMQ-R50). Of a set that begins again, because all its
    brokers were cleaned, it is one that lacks nothing of what those have that an
    operator brought back; what only cleaned ones had is recorded as lost (RMQ-R73).
    """
    replica = state.replica(broker_id)
    if replica is None or not facts.is_alive(replica) or replica.is_learner:
        return None
    if replica.standing not in (LogStanding.SOUND, LogStanding.RESTARTED):
        return None
    if further_than_founder(state, facts, replica) is not None:
        return None
    losses = _losses(state, facts, replica, "unclean") if state.epoch else ()
    return ElectionChoice(replica.member, losses=losses)


def further_than_founder(
    state: SetState, facts: Facts, replica: RegisteredBroker
) -> tuple[int, LogEnd] | None:
    """
    Returns id and log end of a broker without whose records a set must not begin again;
    ``None``: there is none.
    """
    if not state.epoch:
        return None
    ends = [(facts.largest_end(one), -one.broker_id) for one in state.replicas]
    if replica.standing is LogStanding.RESTARTED:
        # An operator brings the set back, so those that are cleaned yet count, too.
        ends += [(one.seen, -one.broker_id) for one in state.tombstones]
    end, number = max(ends)
    is_further = end.end > 0 and end > facts.position(replica)
    return (-number, end) if is_further else None


def electable(state: SetState, facts: Facts) -> tuple[RegisteredBroker, ...]:
    """
    Returns the listed brokers that are alive and sound.
    """
    return tuple(
        one
        for one in state.replicas
        if one.member in state.listed
        and one.address
        and not one.is_learner
        and _standing(one, facts) is LogStanding.SOUND
        and facts.is_alive(one)
        and not is_filling(state, facts, one)
    )


def whole_and_filling(
    state: SetState, facts: Facts
) -> tuple[RegisteredBroker, RegisteredBroker] | None:
    """
    Returns, of a set that elects none of them, the best member that has the older
    records and has restarted, and the filling one that may have newer records, or has
    to promise yet that it gets no more of them; ``None``: there are no two such.
    """
    whole = best(state, facts, _restarted(state, facts), None)
    filling = best(state, facts, _sound_and_filling(state, facts), None)
    return None if whole is None or filling is None else (whole, filling)


def _restarted(state: SetState, facts: Facts) -> Iterator[RegisteredBroker]:
    """
    Yields the listed brokers that are alive, have the older records of the set, and may
    have lost the newest ones.
    """
    replicas = [state.replica(one.broker_id) for one in state.listed]
    return (
        one
        for one in replicas
        if one is not None
        and one.address
        and not one.is_learner
        and _standing(one, facts) is LogStanding.RESTARTED
        and not is_filling(state, facts, one)
        and facts.is_alive(one)
    )


def _sound_and_filling(state: SetState, facts: Facts) -> Iterator[RegisteredBroker]:
    return (
        one
        for one in state.replicas
        if one.member in state.listed
        and one.address
        and not one.is_learner
        and _standing(one, facts) is LogStanding.SOUND
        and facts.is_alive(one)
        and is_filling(state, facts, one)
    )


def _proofs(state: SetState, facts: Facts) -> tuple[RegisteredBroker, ...]:
    """
    Returns the filling members whose log ends prove what was acknowledged: no record
    with ack `all` is above them. Each of them holds all of these from its begin on, and
    has promised the epoch without a master, so it gets no more records of an older
    master, which may live, and acknowledges none (B6).
    """
    if state.master is not None:
        return ()
    return tuple(
        one
        for one in _sound_and_filling(state, facts)
        if (heard := facts.last_heartbeat(one)) is not None
        and heard.promised_epoch >= state.epoch
        and heard.position != NOWHERE
    )


def _proved(
    state: SetState,
    facts: Facts,
    proofs: tuple[RegisteredBroker, ...],
    named_id: int | None,
) -> RegisteredBroker | None:
    """
    Returns the best broker that has restarted and lacks nothing that was acknowledged:
    its log has the older records, and goes as far as that of a filling one.
    """
    least = min((facts.position(one) for one in proofs), default=None)
    if least is None:
        return None
    some = _restarted(state, facts)
    reaching = (one for one in some if facts.position(one) >= least)
    return best(state, facts, reaching, named_id)


def is_filling(state: SetState, facts: Facts, replica: RegisteredBroker) -> bool:
    """
    Returns whether a replica lacks records that its set has (B11): it began above the
    floor, and has not reached it. The floor rises with retention on the master.
    """
    begin = facts.begin(replica)
    if not begin.is_filling:
        return False
    floor = _floor(state, facts)
    return min(floor, begin.offset) < 0 or begin.offset > floor


def _floor(state: SetState, facts: Facts) -> int:
    """
    Returns where the log of the master begins; -1: not known.
    """
    master = None if state.master is None else state.replica(state.master.broker_id)
    return -1 if master is None else facts.begin(master).offset


def _known_floor(state: SetState, facts: Facts) -> int:
    """
    Returns where the log of the master begins, or, as there is none, the first log of
    the members that are whole; -1: not known.
    """
    floor = _floor(state, facts)
    if floor >= 0:
        return floor
    replicas = [state.replica(one.broker_id) for one in state.listed]
    begins = [facts.begin(one) for one in replicas if one is not None]
    whole = [one.offset for one in begins if not one.is_filling and one.offset >= 0]
    return min(whole, default=-1)


def _standing(replica: RegisteredBroker, facts: Facts) -> LogStanding:
    """
    Returns the standing of a log. A Java broker reports nothing of its start, so its
    heartbeats are compared with the end that its process before told (B17).
    """
    heard = facts.last_heartbeat(replica)
    if replica.incarnation is not None or heard is None:
        return replica.standing
    if heard.position == NOWHERE or heard.position >= replica.seen:
        return replica.standing
    return LogStanding.RESTARTED if heard.position.end > 0 else LogStanding.WIPED


def best(
    state: SetState,
    facts: Facts,
    some: Iterable[RegisteredBroker],
    named_id: int | None,
) -> RegisteredBroker | None:
    """
    Returns the best of some brokers, or the named one only (RMQ-R66).
    """
    if named_id is not None:
        some = (one for one in some if one.broker_id == named_id)
    return max(some, key=lambda one: _rank(state, facts, one), default=None)


def _rank(
    state: SetState, facts: Facts, replica: RegisteredBroker
) -> tuple[bool, LogEnd, bool, int, bool, int]:
    last_heartbeat = facts.last_heartbeat(replica)
    own = last_heartbeat.priority if last_heartbeat is not None else LOWEST_PRIORITY
    priority = own if replica.priority is None else replica.priority
    is_ill = last_heartbeat is not None and last_heartbeat.is_ill
    return (
        not is_ill and replica.member != state.resigned,
        facts.position(replica),
        replica.broker_id == state.preferred_id,
        -priority,
        replica.member in state.agreed.members,
        -replica.broker_id,
    )


def _candidates(
    elected: RegisteredBroker, some: tuple[RegisteredBroker, ...]
) -> frozenset[Member]:
    """
    Returns the members that stay candidates. A Java master does not wait for
    candidates, so a candidate could be elected later without acknowledged messages: a
    Java master has no candidates (RMQ-R63).
    """
    if elected.incarnation is None:
        return frozenset()
    return frozenset(one.member for one in some) - {elected.member}


def _after_power_cut(
    state: SetState, facts: Facts, named_id: int | None
) -> RegisteredBroker | None:
    """
    Returns the broker with the longest log of a set in which every process may have
    lost its end (B3): each of them has the messages that were acknowledged as flushed.
    A broker that is not alive may have the longest log; then none is returned.
    """
    replicas = [state.replica(one.broker_id) for one in state.listed]
    listed = [one for one in replicas if one is not None]
    # A Java broker's next process is the same member: only the standing differs.
    if any(_standing(one, facts) is LogStanding.SOUND for one in listed):
        return None
    if not all(one.address for one in listed):
        # Of a rebuilt record: nobody knows yet how far its log goes.
        return None
    whole = [
        one
        for one in listed
        if _standing(one, facts) is LogStanding.RESTARTED
        and not one.is_learner
        and not is_filling(state, facts, one)
    ]
    furthest = max((facts.position(one) for one in whole), default=None)
    there = (
        one for one in whole if facts.position(one) == furthest and facts.is_alive(one)
    )
    return best(state, facts, there, named_id)


def _losses(
    state: SetState, facts: Facts, elected: RegisteredBroker, cause: Cause
) -> tuple[LossRange, ...]:
    """
    Returns the range below the new master's begin that it lacks (B11), and the range
    between its end and the largest known end (RMQ-R73): that of a listed broker, or, in
    an unclean election, of any that the set ever had.
    """
    epoch, begin = told_epoch(state, facts) + 1, facts.begin(elected)
    losses = []
    if begin.is_filling and begin.offset > 0:
        floor = max(_known_floor(state, facts), 0)
        if begin.offset > floor:
            losses.append(LossRange(epoch, floor, begin.offset, cause))
    listed, is_unclean = ids_of(state.listed), cause == "unclean"
    ends = [
        facts.largest_end(one).end
        for one in state.replicas
        if is_unclean or one.broker_id in listed
    ]
    if is_unclean:
        ends += [one.seen.end for one in state.tombstones]
    start, end = max(facts.position(elected).end, 0), max(ends, default=-1)
    if end > start:
        losses.append(LossRange(epoch, start, end, cause))
    return tuple(losses)
