"""
`pystore.autorecovery.host_peers.SetOperators` over the client of the controllers.

Source: D2; docs/autorecovery.md, *Replacing a replica*.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from pystore.controller.client.client import ControllerClient
from pystore.controller.client.set_orders import (
    change_learner,
    clean_broker,
    hand_mastership_over,
)
from pystore.remoting.client import RemotingClient

__all__ = ["ControllerOrders"]


class ControllerOrders:
    """
    The changes of members. For one thread, other than that of the clients' loop.

    Args:
        call: runs a coroutine with the client of the controllers on its loop, and
            returns its result: `LeadingControllers.call`.
        masters: connections to the masters; of the same loop.
    """

    def __init__(
        self,
        call: Callable[[Callable[[ControllerClient], Coroutine[Any, Any, Any]]], Any],
        masters: RemotingClient,
    ) -> None:
        self._call = call
        self._masters = masters

    def clean(self, cluster: str, set_name: str, broker_id: int, version: int) -> bool:
        """
        Removes a broker that is not alive; see `clean_broker`.
        """
        return bool(
            self._call(
                lambda client: clean_broker(
                    client, cluster, set_name, broker_id, version
                )
            )
        )

    def set_learner(
        self, cluster: str, set_name: str, broker_id: int, version: int
    ) -> bool:
        """
        Makes a broker a learner; see `change_learner`.
        """
        return bool(
            self._call(
                lambda client: change_learner(
                    client, cluster, set_name, broker_id, version, is_learner=True
                )
            )
        )

    def hand_over(self, master: str, broker_id: int) -> None:
        """
        Asks a master for its successor; see `hand_mastership_over`.
        """
        self._call(lambda _: hand_mastership_over(self._masters, master, broker_id))
