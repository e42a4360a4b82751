"""
Which controller leads: asked one after the other, in bounded time. Pure.

Controllers are configured as a list of ``HOST:PORT``; a name may stand for several of
them, and for others tomorrow, so names are resolved anew in each round. Who says that
it leads is the leader, at the address at which it said so: what others tell of it may
be old, and may name an address of another network, so it is only where to ask next.

A call that the leader refuses with 2007, or does not answer, forgets it. Each address
is asked once a round, each within the time-out; between two rounds there is a pause.

Source: formats 4.1, 4.6, 4.17; R3, R221, R224; docs/identity.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pystore.controller.protocol.calls import CallRefused, CallUnanswered, Metadata
from pystore.errors import InvalidError, LocalViolation
from pystore.net.address import parse_address

__all__ = [
    "TIMEOUT_MS",
    "AskMetadata",
    "Discovery",
    "DiscoveryEffect",
    "Resolve",
    "Rest",
    "parse_addresses",
]

TIMEOUT_MS = 3000
"""As long as RocketMQ's brokers wait for a controller, in ms."""


@dataclass(frozen=True, slots=True)
class Resolve:
    """
    Look up ``HOST:PORT`` each; ``resolved`` takes what was found.
    """

    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AskMetadata:
    """
    Ask one controller who leads, for so long at most.
    """

    address: str
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Rest:
    """
    Nobody leads, as far as anybody answered: wait before the next round.

    Attributes:
        failures: rounds in a row, from 1 on: how long to wait is the owner's to draw.
        reason: one line for people: what each of them said.
    """

    failures: int
    reason: str


DiscoveryEffect = Resolve | AskMetadata | Rest


def parse_addresses(text: str) -> tuple[str, ...]:
    """
    Read RocketMQ's ``controllerAddr``: ``HOST:PORT``, several of them with ``;``
    between; blanks and empty parts are passed over, and so is a second mention.

    Raises:
        InvalidError: there is none, or one is no ``HOST:PORT``.
    """
    parts = [part.strip() for part in text.split(";")]
    addresses = tuple(dict.fromkeys(part for part in parts if part))
    for address in addresses:
        host, _ = parse_address(address)
        if ":" in host and not address.startswith("["):
            raise InvalidError(f"{address!r}: an IPv6 host needs brackets")
    if not addresses:
        raise InvalidError("no controller is configured: give HOST:PORT;HOST:PORT")
    return addresses


class Discovery:
    """
    The search for the leader. One thread.

    Its owner carries out `next_effect`, says how it ended, and asks again; calls go to
    `leader` while there is one.

    Args:
        addresses: as they are configured (`parse_addresses`).
        timeout_ms: for each question.

    Attributes:
        leader: ``HOST:PORT``; ``None``: it is searched for.
    """

    def __init__(self, addresses: Sequence[str], timeout_ms: int = TIMEOUT_MS) -> None:
        if not addresses or timeout_ms <= 0:
            raise InvalidError("a search takes an address and a time-out above 0")
        self.leader: str | None = None
        self._configured = tuple(addresses)
        self._timeout_ms = timeout_ms
        self._found: dict[str, tuple[str, ...]] = {}
        self._is_resolved = False
        self._is_resting = False
        self._waiting: list[str] = []
        self._asked: dict[str, str] = {}
        self._hint = self._silent = ""
        self._failures = 0

    @property
    def known(self) -> tuple[str, ...]:
        """
        Every controller that is known: heartbeats go to all of them.
        """
        every = [a for name in self._configured for a in self._found.get(name, (name,))]
        return tuple(dict.fromkeys(every))

    def next_effect(self) -> DiscoveryEffect | None:
        """
        Returns what is to be done now; ``None``: the leader is known.
        """
        if self.leader is not None:
            return None
        if self._is_resting:
            return Rest(self._failures, self._reason())
        if not self._is_resolved:
            return Resolve(self._configured)
        return AskMetadata(self._waiting[0], self._timeout_ms)

    def resolved(self, found: Mapping[str, Iterable[str]]) -> None:
        """
        What the names stand for now: ``HOST:PORT`` -> addresses. One that is missing,
        or stands for nothing, keeps what it stood for before.
        """
        for name, addresses in found.items():
            if name in self._configured and (now := tuple(addresses)):
                self._found[name] = now
        self._is_resolved = True
        self._asked.clear()
        self._waiting = sorted(self.known, key=lambda it: it == self._silent)
        if self._hint:
            self._ask_next(self._hint)

    def heard(
        self, address: str, answer: Metadata | CallRefused | CallUnanswered
    ) -> None:
        """
        How a question ended.

        Raises:
            LocalViolation: nothing was asked of this address.
        """
        if self.next_effect() != AskMetadata(address, self._timeout_ms):
            raise LocalViolation(f"{address} was not asked for the leader")
        self._waiting.pop(0)
        match answer:
            case Metadata(is_leader=True):
                self._lead(address)
                return
            case Metadata():
                told = answer.leader_address
                self._asked[address] = f"knows of {told}" if told else "knows no leader"
                # A stranger's word leads to no further stranger: a round ends.
                if told and {told, address} & set(self.known):
                    self._ask_next(told)
            case CallRefused():
                self._asked[address] = f"refuses with code {answer.code}"
            case CallUnanswered():
                self._asked[address] = answer.reason
        if not self._waiting:
            self._failures += 1
            self._hint = self._silent = ""
            self._is_resting = True

    def rested(self) -> None:
        """
        The pause is over: the next round begins.
        """
        self._is_resting = self._is_resolved = False

    def lost(self, address: str, *, is_reachable: bool) -> None:
        """
        A call to the leader failed: it answered 2007, or nothing.

        Args:
            address: whom the call went to; another leader may be known since.
            is_reachable: it answered, so it may know who leads now: asked first. Else
                it is asked last.
        """
        if address != self.leader:
            return
        self.leader = None
        self._hint = address if is_reachable else ""
        self._silent = "" if is_reachable else address
        self._is_resolved = False

    # -- inside --------------------------------------------------------------

    def _lead(self, address: str) -> None:
        self.leader = address
        self._hint = self._silent = ""
        self._failures = 0

    def _ask_next(self, address: str) -> None:
        if address not in self._asked:
            rest = [one for one in self._waiting if one != address]
            self._waiting = [address, *rest]

    def _reason(self) -> str:
        said = "; ".join(f"{address} {what}" for address, what in self._asked.items())
        return f"no controller leads: {said}"
