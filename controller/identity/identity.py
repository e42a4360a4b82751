"""
The identity of a broker: its configuration compared with its store. Pure.

Cluster and broker name come from the configuration. The id comes from a controller,
once. The store keeps all three for its lifetime. A difference is an error for the
operator, and never a reason to take another identity (RMQ-R12, RMQ-R16).

Source: formats 5.1; RMQ-R10 to RMQ-R18; docs/identity.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.errors import InvalidError
from pystore.metastore.values import Identity
from pystore.rocketmq.identity_file import BrokerIdentity, TemporaryIdentity

__all__ = ["ConfiguredIdentity", "broker_identity_of", "check_code", "mismatch_of"]

_CODE_BYTES = 8


@dataclass(frozen=True, slots=True)
class ConfiguredIdentity:
    """
    The configured identity of a broker.

    Attributes:
        cluster: RocketMQ's ``brokerClusterName``.
        broker: RocketMQ's ``brokerName``: the name of the set.
        address: ``HOST:PORT`` where clients and the controller reach it.
        ha_address: ``HOST:PORT`` where it serves slaves; empty: unknown.

    Raises:
        InvalidError: a name is empty or contains ``#`` (RMQ-R15), or the address is
            invalid.
    """

    cluster: str
    broker: str
    address: str
    ha_address: str = ""

    def __post_init__(self) -> None:
        self.with_id(1)
        if not self.address or set(self.address) & set("#;"):
            raise InvalidError(
                f"{self.address!r} is not the address of a broker: give HOST:PORT"
            )

    def with_id(self, broker_id: int) -> BrokerIdentity:
        """
        Returns the identity of this broker with an id.
        """
        return BrokerIdentity(self.cluster, self.broker, broker_id)


def check_code(address: str, wall_ms: int, bits: bytes) -> str:
    """
    Returns a code by which a controller recognises an applicant (RMQ-R14).

    RocketMQ's controllers take the text before the first ``;`` as the broker's first
    address, and its brokers write the time after it. Here random bits follow, so that
    two brokers with the same address by mistake have different codes.

    Args:
        address: `ConfiguredIdentity.address`.
        wall_ms: the time of day.
        bits: 8 random bytes.
    """
    if len(bits) != _CODE_BYTES:
        raise InvalidError(f"a check code takes {_CODE_BYTES} random bytes")
    return f"{address};{wall_ms};{bits.hex()}"


def broker_identity_of(identity: BrokerIdentity | TemporaryIdentity) -> BrokerIdentity:
    """
    Returns names and id of an identity, confirmed or not.
    """
    return identity.identity if isinstance(identity, TemporaryIdentity) else identity


def mismatch_of(stored: Identity, named: ConfiguredIdentity) -> str:
    """
    Returns why a stored identity does not fit this broker, and what to do, as one line;
    empty: it fits, or there is none (RMQ-R12).
    """
    if stored is None:
        return ""
    known = broker_identity_of(stored)
    for what, key, theirs, ours in (
        ("cluster", "brokerClusterName", known.cluster, named.cluster),
        ("broker set", "brokerName", known.broker, named.broker),
    ):
        if theirs != ours:
            return (
                f"the store belongs to {what} {theirs!r} (broker {known.broker_id}), "
                f"and the configuration says {ours!r}: correct {key}, or give this "
                "broker a store of its own"
            )
    if known.broker_id < 1:
        return (
            f"the store has broker id {known.broker_id}, but ids begin at 1: "
            "restore brokerIdentity from a backup"
        )
    return ""
