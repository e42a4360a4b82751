"""
What is true at the moment of a decision, and is no part of the state. Pure.

Liveness, time and configuration are looked at once, by whoever asks for a decision:
two looks could disagree (R71), and a look by somebody else's clock proves nothing
(R234, R235).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pystore.controller.model.log_end import NOWHERE, LogEnd
from pystore.controller.model.replica import RegisteredBroker
from pystore.remoting.codes import LOWEST_PRIORITY
from pystore.replicaset import Incarnation

__all__ = ["Facts", "LastHeartbeat"]


@dataclass(frozen=True, slots=True)
class LastHeartbeat:
    """
    The last heartbeat of a broker, while it is valid.

    Attributes:
        incarnation: of the process that sent it; ``None``: a Java broker.
        position: where its log ends.
        priority: its own election priority; the lower is preferred.
        is_ill: its disk fails; it is elected only if nobody else can be (B9).
    """

    incarnation: Incarnation | None = None
    position: LogEnd = NOWHERE
    priority: int = LOWEST_PRIORITY
    is_ill: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """
    What is true at this moment, of one set.

    Attributes:
        pulses: of the brokers whose heartbeat is valid, by id.
        may_replace: this controller leads for so long that a master it never heard
            of has no lease any more (C3, R226).
        is_unclean_allowed: whoever is alive may be elected where nobody else can be;
            RocketMQ: ``enableElectUncleanMaster``.
    """

    pulses: Mapping[int, LastHeartbeat] = field(default_factory=dict)
    may_replace: bool = True
    is_unclean_allowed: bool = False

    def is_alive(self, replica: RegisteredBroker | None) -> bool:
        """
        Returns whether the process that registered is heard of: a heartbeat of
        another process of that broker is none of its (B1).
        """
        return replica is not None and self.pulse(replica) is not None

    def pulse(self, replica: RegisteredBroker) -> LastHeartbeat | None:
        """
        Returns the valid heartbeat of the process that registered.
        """
        pulse = self.pulses.get(replica.broker_id)
        if pulse is None or pulse.incarnation != replica.incarnation:
            return None
        return pulse

    def position(self, replica: RegisteredBroker) -> LogEnd:
        """
        Returns where the log of the registered process ends: nothing that an earlier
        process of that broker said counts (R72).
        """
        pulse = self.pulse(replica)
        is_told = pulse is not None and pulse.position != NOWHERE
        return pulse.position if pulse and is_told else replica.recovered
