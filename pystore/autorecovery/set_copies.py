"""
Which copies of a set are good, and which replica may go without a loss. Pure.

A copy is *good* if the leading controller says that its broker is alive, in the
SyncStateSet, and not filling. A Java copy counts, though nothing proves it (D7).

Source: D1, D7; I4, I5; docs/autorecovery.md, *Replacing a replica*.
"""

from __future__ import annotations

from collections.abc import Collection

from pystore.controller.protocol.set_descriptions import (
    BrokerDescription,
    SetDescription,
)

__all__ = [
    "broker_of",
    "good_copies",
    "is_good",
    "is_whole",
    "living_master",
    "missing_without",
    "set_size",
    "successor_of",
    "why_not_whole",
]


def broker_of(described: SetDescription, broker_id: int) -> BrokerDescription | None:
    """
    Returns a broker of a set.
    """
    found = (one for one in described.brokers if one.broker_id == broker_id)
    return next(found, None)


def is_good(one: BrokerDescription) -> bool:
    """
    Returns whether the copy of a broker is good.
    """
    is_whole = not one.begin.is_filling and not one.standing.needs_operator
    return one.is_alive and one.is_in_sync and is_whole


def is_whole(one: BrokerDescription) -> bool:
    """
    Returns whether a broker has the whole log, as far as its role asks for it: a
    learner is never in the SyncStateSet.
    """
    return not why_not_whole(one)


def why_not_whole(one: BrokerDescription) -> str:
    """
    Returns what a broker lacks to be whole and admitted, by the controller's word;
    empty: nothing.
    """
    if not one.is_alive:
        return "is not alive"
    if one.standing.needs_operator:
        return f"has a log that is {one.standing.value}"
    if one.begin.is_filling:
        return "is filling"
    if not one.is_in_sync and not one.is_learner:
        return "is not in the SyncStateSet"
    return ""


def good_copies(described: SetDescription) -> int:
    """
    Returns the number of good copies.
    """
    return sum(map(is_good, described.brokers))


def living_master(described: SetDescription) -> BrokerDescription | None:
    """
    Returns the master of a set, if it is alive.
    """
    if described.master_id is None:
        return None
    one = broker_of(described, described.master_id)
    return one if one is not None and one.is_alive else None


def missing_without(
    described: SetDescription,
    leaving: int,
    places: Collection[frozenset[int]] = (),
    going: Collection[int] = (),
) -> tuple[str, ...]:
    """
    Returns which copies are missing before a broker may leave its set; empty: it may.

    A copy that is not good may always leave. A good one leaves only if there are as
    many good ones without it as the set should have (I5).

    Args:
        described: the set.
        leaving: the id of the broker.
        places: the brokers of each replacement: the replaced one and those that were
            made for it. They have one place in the set, whichever of them are there.
        going: other brokers that may have left already: they do not count, and those
            that are in no place have none.
    """
    one = broker_of(described, leaving)
    if one is None or not is_good(one):
        return ()
    voters = {it.broker_id: it for it in described.brokers if not it.is_learner}
    learners = {it.broker_id for it in described.brokers if it.is_learner}
    shared = frozenset[int]().union(*places)
    wanted = len(voters.keys() - shared - set(going))
    wanted += sum(1 for place in places if not place & learners)
    wanted = min(described.copies or wanted, wanted)
    good = {number for number, it in voters.items() if is_good(it)}
    if len(good - {leaving} - set(going)) >= max(wanted, 1):
        return ()
    reasons = [(number, why_not_whole(it)) for number, it in voters.items()]
    found = [f"broker {number} {why}" for number, why in reasons if why]
    return tuple(found) or (f"{wanted} are wanted",)


def successor_of(
    described: SetDescription, leaving: Collection[int]
) -> BrokerDescription | None:
    """
    Returns the member to which a master hands its mastership over: a good copy that is
    not about to leave, of pystore; ``None``: there is none.
    """
    for one in described.brokers:
        is_ours = one.incarnation is not None
        if is_good(one) and is_ours and one.broker_id not in leaving:
            return one
    return None


def set_size(described: SetDescription) -> int:
    """
    Returns the bytes of the longest log of a set.
    """
    logs = (
        one.end.end - max(one.begin.offset, 0)
        for one in described.brokers
        if one.end.end > 0
    )
    return max(logs, default=0)
