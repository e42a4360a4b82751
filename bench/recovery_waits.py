"""
What the benches of AutoRecovery wait for before they measure.
"""

from __future__ import annotations

from lib.broker_process import until

from pystore.autorecovery.controllers import LeadingControllers
from pystore.controller.client.client import ControllerClient

__all__ = ["await_knowing"]


def await_knowing(controller: str, cluster: str, name: str) -> None:
    """
    Waits until the controller has led for long enough to know who is alive: 10 s.

    Args:
        controller: its address.
        cluster: of a set.
        name: of the set.
    """
    with LeadingControllers(lambda: ControllerClient([controller])) as controllers:
        until(lambda: controllers.one_set(cluster, name))
