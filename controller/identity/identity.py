"""
Who a broker is: what its configuration says, against what its store remembers. Pure.

Cluster and broker name come from the configuration, the id from a controller, once;
the store remembers all three for as long as it exists. What does not fit is an error
for the operator, and never a reason to become somebody else (R12, R16).

Source: formats 5.1; R10 to R18; docs/identity.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.errors import InvalidError
from pystore.metastore.values import Identity
from pystore.rocketmq.identity_file import BrokerIdentity, TemporaryIdentity

__all__ = ["ConfiguredIdentity", "check_code", "misfit_of", "settled_of"]

_CODE_BYTES = 8


@dataclass(frozen=True, slots=True)
class ConfiguredIdentity:
    """
    What a broker's configuration says of it.

    Attributes:
        cluster: RocketMQ's ``brokerClusterName``.
        broker: RocketMQ's ``brokerName``: the name of the set.
        address: ``HOST:PORT`` at which clients and the controller reach it.

    Raises:
        InvalidError: a name is empty or holds ``#`` (R15), or there is no address.
    """

    cluster: str
    broker: str
    address: str

    def __post_init__(self) -> None:
        self.with_id(1)
        if not self.address or set(self.address) & set("#;"):
            raise InvalidError(
                f"{self.address!r} is no address of a broker: give HOST:PORT"
            )

    def with_id(self, broker_id: int) -> BrokerIdentity:
        """
        The identity that this broker has under an id.
        """
        return BrokerIdentity(self.cluster, self.broker, broker_id)


def check_code(address: str, wall_ms: int, bits: bytes) -> str:
    """
    Returns a code by which a controller knows the applicant again (R14).

    RocketMQ's controllers take the broker's first address from what is before the
    first ``;``, and its brokers write the time behind it. Random bits follow here: two
    brokers that were given one address by mistake must not pass for one.

    Args:
        address: `ConfiguredIdentity.address`.
        wall_ms: the time.
        bits: 8 random bytes.
    """
    if len(bits) != _CODE_BYTES:
        raise InvalidError(f"a check code takes {_CODE_BYTES} random bytes")
    return f"{address};{wall_ms};{bits.hex()}"


def settled_of(identity: BrokerIdentity | TemporaryIdentity) -> BrokerIdentity:
    """
    Returns the names and the id, confirmed or not.
    """
    return identity.identity if isinstance(identity, TemporaryIdentity) else identity


def misfit_of(stored: Identity, named: ConfiguredIdentity) -> str:
    """
    Returns why a stored identity is not this broker's, and what to do, as one line;
    empty: it is, or there is none (R12).
    """
    if stored is None:
        return ""
    known = settled_of(stored)
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
            f"the store says broker id {known.broker_id}, and controllers begin at 1: "
            "restore brokerIdentity from a backup"
        )
    return ""
