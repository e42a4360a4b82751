"""
The search for the leading controller, in bounded time. Pure.

Controllers are configured as a list of ``HOST:PORT``. A name may have several
addresses, and they may change, so each round resolves the names again. A controller
that says that it leads is the leader, at the address where it was asked. What other
controllers say about the leader may be old, or an address of another network, so it
only decides which address is asked next.

If the leader refuses a call with 2007, or does not answer, the search starts again.
Each round asks each address once, each within the time-out; a pause separates two
rounds.

Source: formats 4.1, 4.6, 4.17; RMQ-R3, RMQ-R221, RMQ-R224; docs/identity.md.
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
"""How long RocketMQ's brokers wait for a controller, in ms."""


@dataclass(frozen=True, slots=True)
class Resolve:
    """
    Resolve each ``HOST:PORT``; ``resolved`` takes the result.
    """

    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AskMetadata:
    """
    Ask one controller for the leader, with a time-out.
    """

    address: str
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Rest:
    """
    No controller of this round leads: wait before the next round.

    Attributes:
        failures: rounds in a row, from 1 on; the owner draws the pause.
        reason: one line for people: the answers of this round.
    """

    failures: int
    reason: str


DiscoveryEffect = Resolve | AskMetadata | Rest


def parse_addresses(text: str) -> tuple[str, ...]:
    """
    Parse RocketMQ's ``controllerAddr``: one ``HOST:PORT`` or several with ``;``
    between. Blanks, empty parts and duplicates are ignored.

    Raises:
        InvalidError: there is no address, or one is not ``HOST:PORT``.
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

    Its owner carries out `next_effect`, reports the result, and repeats that; calls go
    to `leader` while there is one.

    Args:
        addresses: the configured ones (`parse_addresses`).
        timeout_ms: for each request.

    Attributes:
        leader: ``HOST:PORT``; ``None``: the search is on.
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
        The addresses of all known controllers: heartbeats go to all of them.
        """
        every = [a for name in self._configured for a in self._found.get(name, (name,))]
        return tuple(dict.fromkeys(every))

    def next_effect(self) -> DiscoveryEffect | None:
        """
        Returns the next effect to carry out; ``None``: the leader is known.
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
        Takes the addresses of the names: ``HOST:PORT`` -> addresses. A name without a
        result keeps its previous addresses.
        """
        for name, addresses in found.items():
            if name in self._configured and (now := tuple(addresses)):
                self._found[name] = now
        self._is_resolved = True
        self._asked.clear()
        self._waiting = sorted(self.known, key=lambda it: it == self._silent)
        if self._hint:
            self._ask_next(self._hint)

    def answered(
        self, address: str, answer: Metadata | CallRefused | CallUnanswered
    ) -> None:
        """
        Takes the answer to `AskMetadata`.

        Raises:
            LocalViolation: this address was not asked.
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
                self._asked[address] = (
                    f"names {told} as leader" if told else "knows no leader"
                )
                # An unknown address is asked only if a known one named it, so a round
                # ends.
                if told and {told, address} & set(self.known):
                    self._ask_next(told)
            case CallRefused():
                why = f": {answer.remark}" if answer.remark else ""
                self._asked[address] = f"refuses with code {answer.code}{why}"
            case CallUnanswered():
                self._asked[address] = answer.reason
        if not self._waiting:
            self._failures += 1
            self._hint = self._silent = ""
            self._is_resting = True

    def rested(self) -> None:
        """
        Starts the next round after the pause.
        """
        self._is_resting = self._is_resolved = False

    def lost(self, address: str, *, is_reachable: bool) -> None:
        """
        Takes note of a failed call to the leader: it answered 2007, or nothing.

        Args:
            address: of the call; another leader may be known since.
            is_reachable: it answered, so it may know the new leader and is asked first;
                else it is asked last.
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
        # Errors of the network name the address themselves.
        said = "; ".join(
            what if what.startswith(address) else f"{address} {what}"
            for address, what in self._asked.items()
        )
        return f"no controller leads: {said}"
