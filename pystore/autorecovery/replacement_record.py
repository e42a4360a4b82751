"""
The record of one replica that is replaced, and the record of a host that is emptied.
Pure.

A replacement is a state machine of which each state is stored, and each step asks for
one thing and then waits until it is seen. So a step may be repeated after a crash, by
another Auditor.

Source: AR-R1, AR-R22, AR-R26; docs/autorecovery.md, *Replacing a replica*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import quote, unquote

from pystore.autorecovery.record_form import RecordFields, decode_form, encode_form
from pystore.errors import FormatError
from pystore.records.ops import check_key

__all__ = [
    "ASKED",
    "DRAINS",
    "REPLACEMENTS",
    "HostDrain",
    "LeftReplica",
    "Replacement",
    "ReplacementKey",
    "ReplacementPhase",
    "ReplacementReason",
    "WaitReason",
    "decode_drain",
    "decode_replacement",
    "drain_key",
    "drained_host",
    "encode_drain",
    "encode_replacement",
]

REPLACEMENTS = "recovery/replace/"
"""One record for each replica that is replaced."""

DRAINS = "recovery/drain/"
"""One record for each host that is emptied."""

ASKED = "recovery/replacements"
"""Written with each request of another process: the Auditor reads all records anew."""

_KNOWN = (
    *("reason", "phase", "since_ms", "phase_ms", "by", "target", "new_id", "above_id"),
    *("tries", "not_before_ms", "cancelled", "left", "failed"),
    *("problem", "waits_for", "old_host"),
)


class ReplacementReason(Enum):
    """
    Why a replica is replaced.
    """

    LOST = "LOST"  # the leading controller says that it is dead
    WIPED = "WIPED"  # it is alive, and its store is empty or another one
    DRAIN = "DRAIN"  # an operator empties its host
    MISPLACED = "MISPLACED"  # another one is on its rack, and another rack is free
    MISSING = "MISSING"  # the set has fewer replicas than it should; broker id 0


class ReplacementPhase(Enum):
    """
    How far a replacement is.
    """

    WANTED = "wanted"
    """No host is chosen."""
    PLANNED = "planned"
    """A host is chosen; it may have been asked to add a replica."""
    ADDED = "added"
    """The host has the new replica, which has no broker id yet that the set knows."""
    FILLING = "filling"
    """The new replica is a broker of the set; it is not yet whole and admitted."""
    RETIRING = "retiring"
    """The new replica is whole and admitted; the old one goes."""
    CLEARING = "clearing"
    """It has ended; replicas that nothing needs are removed from their hosts."""

    @property
    def is_running(self) -> bool:
        """
        Whether it takes part in a transfer, or is about to.
        """
        return self not in (ReplacementPhase.WANTED, ReplacementPhase.CLEARING)


class WaitReason(Enum):
    """
    What keeps a replacement from its next step, and does not end by itself.
    """

    NO_TARGET = "no target"
    NO_MASTER = "no master"
    TOO_FEW_COPIES = "too few good copies"
    DAMAGED_SEGMENTS = "damaged segments"
    DEAD_SEGMENTS = "dead segments"
    NOT_HOSTED = "not on a host"
    UNREADABLE_SET = "unreadable set"


@dataclass(frozen=True, slots=True, order=True)
class ReplacementKey:
    """
    The replica that is replaced.

    Attributes:
        cluster: of its set.
        set_name: of its set.
        broker_id: in its set; ids are never used again. 0: none is replaced, the set
            has too few.
    """

    cluster: str
    set_name: str
    broker_id: int

    @property
    def names(self) -> tuple[str, str]:
        """
        Cluster and name of the set.
        """
        return self.cluster, self.set_name

    @property
    def text(self) -> str:
        """
        The end of the key: ``CLUSTER/SET/ID``.
        """
        return f"{_escaped(self.cluster)}/{_escaped(self.set_name)}/{self.broker_id}"

    @property
    def record(self) -> str:
        """
        The key of the record.

        Raises:
            InvalidError: the names are too long for a key.
        """
        text = REPLACEMENTS + self.text
        check_key(text)
        return text

    @classmethod
    def parse(cls, text: str) -> ReplacementKey:
        """
        Returns the replica of a `text`.

        Raises:
            FormatError: it is none.
        """
        cluster, _, rest = text.partition("/")
        name, _, number = rest.partition("/")
        if number.isascii() and number.isdigit():
            key = cls(_read(cluster), _read(name), int(number))
            if key.text == text:
                return key
        raise FormatError(f"{text!r} is not CLUSTER/SET/ID of a replica", path=text)


@dataclass(frozen=True, slots=True)
class LeftReplica:
    """
    A replica that a replacement leaves behind, to be removed from its host.

    Attributes:
        host: its name.
        broker_id: in its set; 0: it may not have one.
        keeps_store: its files stay: they were a copy once.
    """

    host: str
    broker_id: int = 0
    keeps_store: bool = False


@dataclass(frozen=True, slots=True)
class Replacement:
    """
    The record of a replacement.

    Attributes:
        reason: why.
        since_ms: when it was asked for, Unix time.
        by: who asked, for people.
        phase: how far it is.
        phase_ms: since when, Unix time.
        old_host: the name of the host of the replaced replica, when the first host was
            chosen; empty: none had it.
        target: the name of the host of the new replica; empty: none is chosen.
        new_id: the broker id of the new replica; 0: it is not known.
        above_id: the highest broker id of the set when the first host was chosen.
        tries: requests of the present phase.
        not_before_ms: no request is sent before this time.
        cancelled: an operator, or the return of the replica, has ended it.
        left: replicas that are to be removed.
        failed: hosts on which it failed, the last one last.
        problem: what it waits for, one line.
        waits_for: the kind of that, if it does not end by itself.
        more: fields of a later program, kept as they are.
    """

    reason: ReplacementReason
    since_ms: int
    by: str = ""
    phase: ReplacementPhase = ReplacementPhase.WANTED
    phase_ms: int = 0
    old_host: str = ""
    target: str = ""
    new_id: int = 0
    above_id: int = 0
    tries: int = 0
    not_before_ms: int = 0
    cancelled: bool = False
    left: tuple[LeftReplica, ...] = ()
    failed: tuple[str, ...] = ()
    problem: str = ""
    waits_for: WaitReason | None = None
    more: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HostDrain:
    """
    The record of a host that is emptied.

    Attributes:
        since_ms: when it was asked for, Unix time.
        by: who asked, for people.
        with_living: also replicas that are alive.
        more: fields of a later program, kept as they are.
    """

    since_ms: int
    by: str = ""
    with_living: bool = False
    more: Mapping[str, object] = field(default_factory=dict)


def encode_replacement(one: Replacement) -> bytes:
    """
    Returns the record of a replacement.
    """
    return encode_form(
        {
            **one.more,
            "reason": one.reason.value,
            "phase": one.phase.value,
            "since_ms": one.since_ms,
            "phase_ms": one.phase_ms,
            "by": one.by,
            "old_host": one.old_host,
            "target": one.target,
            "new_id": one.new_id,
            "above_id": one.above_id,
            "tries": one.tries,
            "not_before_ms": one.not_before_ms,
            "cancelled": int(one.cancelled),
            "left": [[it.host, it.broker_id, int(it.keeps_store)] for it in one.left],
            "failed": list(one.failed),
            "problem": one.problem,
            "waits_for": one.waits_for.value if one.waits_for else "",
        }
    )


def decode_replacement(raw: bytes, where: str) -> Replacement:
    """
    Returns the replacement of a record.

    Raises:
        FormatError: it is none, or has a later form.
    """
    fields = decode_form(raw, where)
    waits_for = fields.text("waits_for")
    try:
        reason = ReplacementReason(fields.text("reason"))
        phase = ReplacementPhase(fields.text("phase"))
        waits = WaitReason(waits_for) if waits_for else None
    except ValueError as error:
        # A value of a later program, without a form of its own.
        raise fields.bad(str(error)) from error
    return Replacement(
        reason=reason,
        since_ms=fields.number("since_ms"),
        by=fields.text("by"),
        phase=phase,
        phase_ms=fields.number("phase_ms"),
        old_host=fields.text("old_host"),
        target=fields.text("target"),
        new_id=fields.number("new_id"),
        above_id=fields.number("above_id"),
        tries=fields.number("tries"),
        not_before_ms=fields.number("not_before_ms"),
        cancelled=bool(fields.number("cancelled")),
        left=_left(fields),
        failed=tuple(fields.list_of("failed", str)),
        problem=fields.text("problem"),
        waits_for=waits,
        more=fields.other_than(_KNOWN),
    )


def drain_key(host: str) -> str:
    """
    Returns the key of the record of a host.

    Raises:
        InvalidError: the name is too long.
    """
    text = DRAINS + _escaped(host)
    check_key(text)
    return text


def drained_host(key: str) -> str:
    """
    Returns the host of such a key.
    """
    return _read(key.removeprefix(DRAINS))


def encode_drain(one: HostDrain) -> bytes:
    """
    Returns the record of a host that is emptied.
    """
    own = {"since_ms": one.since_ms, "by": one.by, "living": int(one.with_living)}
    return encode_form({**one.more, **own})


def decode_drain(raw: bytes, where: str) -> HostDrain:
    """
    Returns what a record of a host says.

    Raises:
        FormatError: it is none, or has a later form.
    """
    fields = decode_form(raw, where)
    return HostDrain(
        fields.number("since_ms"),
        fields.text("by"),
        bool(fields.number("living")),
        fields.other_than(("since_ms", "by", "living")),
    )


def _left(fields: RecordFields) -> tuple[LeftReplica, ...]:
    found = []
    for one in fields.list_of("left", list):
        match one:
            case [str(host), int(broker_id), int(keeps_store)]:
                found.append(LeftReplica(host, broker_id, bool(keeps_store)))
            case _:
                raise fields.bad(f"left has {one!r}")
    return tuple(found)


def _escaped(text: str) -> str:
    # As the controller escapes them.
    return quote(text, safe=":", errors="surrogatepass")


def _read(text: str) -> str:
    return unquote(text, errors="surrogatepass")
