"""
Asks for replacements, cancels them, and lists them: what operators and the Auditor do
with the records. Each is one commit.

Source: AR-R22, AR-R26; docs/autorecovery.md, *Replacing a replica*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from pystore.autorecovery.mark import Reason
from pystore.autorecovery.queue_view import list_dead, list_marks
from pystore.autorecovery.record_form import encode_form
from pystore.autorecovery.replacement_record import (
    ASKED,
    DRAINS,
    REPLACEMENTS,
    HostDrain,
    Replacement,
    ReplacementKey,
    ReplacementPhase,
    ReplacementReason,
    decode_drain,
    decode_replacement,
    drain_key,
    drained_host,
    encode_drain,
    encode_replacement,
)
from pystore.autorecovery.replica_peers import Controllers
from pystore.autorecovery.segment_key import SegmentKey
from pystore.autorecovery.set_copies import broker_of
from pystore.errors import FormatError, InvalidError, UnknownOutcomeError
from pystore.records.ops import ABSENT, CheckVersion, Delete, Op, Put
from pystore.records.record_store import RecordStore, StoredRecord

__all__ = [
    "ask_replacement",
    "begin_drain",
    "cancel_replacement",
    "dead_segments",
    "end_drain",
    "forget_replacement",
    "list_drains",
    "list_replacements",
    "marked_segments",
    "read_replacements",
    "replace_replica",
]

_T = TypeVar("_T")

_NO_DAMAGE = {Reason.FILL, Reason.DRAIN, Reason.MISPLACED}


def ask_replacement(
    store: RecordStore,
    key: ReplacementKey,
    reason: ReplacementReason,
    *,
    by: str,
    now_ms: int,
) -> bool:
    """
    Asks for the replacement of a replica.

    Args:
        store: of the records.
        key: the replica.
        reason: why.
        by: who asks, for people.
        now_ms: Unix time.

    Returns:
        Whether it is new; if not, the replica is being replaced already.
    """
    raw = encode_replacement(Replacement(reason, now_ms, by, phase_ms=now_ms))
    return _commit(store, key.record, ABSENT, Put(key.record, raw), _asked(by, now_ms))


def replace_replica(
    store: RecordStore,
    controllers: Controllers,
    key: ReplacementKey,
    *,
    by: str,
    now_ms: int,
) -> bool:
    """
    Asks for the replacement of a dead or wiped replica at once (AR-R22).

    Args:
        store: of the records.
        controllers: say what the replica is.
        key: the replica.
        by: who asks, for people.
        now_ms: Unix time.

    Returns:
        Whether it is new, as of `ask_replacement`.

    Raises:
        InvalidError: there is no such replica, or it is alive with its own store.
        UnavailableError: no controller knows who is alive.
        FormatError: the record of the set is unreadable.
    """
    described = controllers.one_set(*key.names)
    one = None if described is None else broker_of(described, key.broker_id)
    if one is None:
        raise InvalidError(
            f"broker set {key.set_name} of {key.cluster} has no broker {key.broker_id}"
        )
    if one.standing.needs_operator:
        reason = ReplacementReason.WIPED
    elif not one.is_alive:
        reason = ReplacementReason.LOST
    else:
        raise InvalidError(
            f"broker {key.broker_id} of {key.set_name} is alive and has its store: to "
            "have it elsewhere, empty its host with --drain"
        )
    return ask_replacement(store, key, reason, by=by, now_ms=now_ms)


def cancel_replacement(
    store: RecordStore, key: ReplacementKey, by: str, now_ms: int
) -> bool:
    """
    Cancels a replacement: the new replica is removed again, and the old one stays.

    Args:
        store: of the records.
        key: of the replica that is replaced.
        by: who cancels, for people.
        now_ms: Unix time.

    Returns:
        Whether there is one.

    Raises:
        InvalidError: it is too late: the new replica is whole and admitted.
        FormatError: its record cannot be read.
    """
    while True:
        found = store.get(key.record)
        if found is None:
            return False
        one = decode_replacement(found.value, found.key)
        if one.cancelled:
            return True
        if one.phase is ReplacementPhase.RETIRING:
            raise InvalidError(
                f"the replacement of broker {key.broker_id} of {key.set_name} cannot "
                f"be cancelled: broker {one.new_id} on {one.target} is whole, and in "
                "its place; drain that host to have it elsewhere"
            )
        if one.phase is ReplacementPhase.CLEARING:
            return True
        put = Put(key.record, encode_replacement(replace(one, cancelled=True)))
        if _commit(store, key.record, found.version, put, _asked(by, now_ms)):
            return True


def forget_replacement(
    store: RecordStore, key: ReplacementKey, by: str, now_ms: int
) -> bool:
    """
    Removes a record, also one that cannot be read; what hosts and controllers have done
    stays. Returns whether there was one.
    """
    while True:
        found = store.scan(key.record, limit=1)
        if not found or found[0].key != key.record:
            return False
        ops: list[Op] = [Delete(key.record), _asked(by, now_ms)]
        try:
            store.commit(ops)
        except UnknownOutcomeError:
            # Again: it is gone, or is deleted now.
            continue
        return True


def begin_drain(store: RecordStore, host: str, drain: HostDrain, now_ms: int) -> bool:
    """
    Begins to empty a host; returns whether that is new.
    """
    key = drain_key(host)
    put = Put(key, encode_drain(drain))
    return _commit(store, key, ABSENT, put, _asked(drain.by, now_ms))


def end_drain(store: RecordStore, host: str, by: str, now_ms: int) -> bool:
    """
    Ends the emptying of a host: replacements of its replicas that are not whole are
    undone. Returns whether the host was being emptied.
    """
    key = drain_key(host)
    while True:
        found = store.get(key)
        if found is None:
            return False
        if _commit(store, key, found.version, Delete(key), _asked(by, now_ms)):
            return True


def list_replacements(store: RecordStore) -> dict[ReplacementKey, Replacement]:
    """
    Returns all replacements that can be read.
    """
    return {key: one for key, one, _ in read_replacements(store, [])}


def read_replacements(
    store: RecordStore, damaged: list[str]
) -> Iterator[tuple[ReplacementKey, Replacement, int]]:
    """
    Yields all replacements that can be read, with the versions of their records; for
    each other record a line is added to a list.
    """
    for record in store.scan(REPLACEMENTS):
        key = _decoded(record, _key_of, damaged)
        one = _decoded(record, decode_replacement, damaged) if key else None
        if key is not None and one is not None:
            yield key, one, record.version


def list_drains(store: RecordStore) -> dict[str, HostDrain]:
    """
    Returns the hosts that are being emptied. One whose record cannot be read is among
    them: it takes no replica, and nothing else is done to it.
    """
    found = {}
    for record in store.scan(DRAINS):
        one = _decoded(record, decode_drain, [])
        found[drained_host(record.key)] = one or HostDrain(0, "a damaged record")
    return found


def marked_segments(
    store: RecordStore, cluster: str, set_name: str
) -> dict[str, frozenset[int]]:
    """
    Returns the segments of a set of which copies are damaged or lost, with the brokers
    of those copies.
    """
    found = {}
    for key, mark in list_marks(store, within=_within(cluster, set_name)).items():
        missing = (
            number
            for number, fact in mark.missing.items()
            if fact.reason not in _NO_DAMAGE
        )
        found[key.text] = frozenset(missing)
    return found


def dead_segments(store: RecordStore, cluster: str, set_name: str) -> list[str]:
    """
    Returns the dead segments of a set.
    """
    return [key.text for key in list_dead(store, _within(cluster, set_name))]


def _within(cluster: str, set_name: str) -> str:
    text = SegmentKey(cluster, set_name, 0).text
    return text[: text.rindex("/") + 1]


def _key_of(_: bytes, where: str) -> ReplacementKey:
    return ReplacementKey.parse(where.removeprefix(REPLACEMENTS))


def _decoded(
    record: StoredRecord, decode: Callable[[bytes, str], _T], damaged: list[str]
) -> _T | None:
    try:
        if record.damage:
            raise FormatError(record.damage, path=record.key)
        return decode(record.value, record.key)
    except FormatError as error:
        # One record must not hide the others.
        damaged.append(str(error))
        return None


def _asked(by: str, now_ms: int) -> Put:
    return Put(ASKED, encode_form({"by": by, "at_ms": now_ms}))


def _commit(
    store: RecordStore, key: str, version: int, write: Put | Delete, asked: Put
) -> bool:
    """
    Returns whether a request was committed.
    """
    try:
        return store.commit([CheckVersion(key, version), write, asked]) is not None
    except UnknownOutcomeError:
        # The record shows it.
        found = store.get(key)
        if isinstance(write, Delete):
            return found is None
        return found is not None and found.value == write.value
