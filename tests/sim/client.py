"""
A client of the set.
"""

from __future__ import annotations

from sim.broker import Broker

from pystore.errors import FullError
from pystore.ha.insync.ack import Ack

__all__ = ["append"]


def append(broker: Broker, ack: Ack, size: int) -> str:
    """
    A client appends a record of so many bytes; answers why not, or nothing.
    """
    mastership = broker.mastership
    if mastership is None or mastership.is_over or not broker.is_up:
        return "no master"
    if broker.paused_until > broker.clock.now:
        return "paused"
    refusal = mastership.monitor.refusals[ack]
    if refusal is not None:
        return refusal.text
    if not ack.is_shared and not mastership.is_leased:
        return "no lease"
    said: list[str] = []

    def do() -> None:
        try:
            broker.step()
            end = broker.store.append_record(broker.world.number(), size)
        except FullError as error:
            # Nothing of it is there; the client is told.
            said.append(str(error))
            return
        broker.world.checker.wrote(broker.number, broker.store)
        mastership.appended(ack, end)

    broker.own(do)()
    return said[0] if said else ""
