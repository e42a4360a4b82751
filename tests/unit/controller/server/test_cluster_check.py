"""
A controller says once of each record store that its brokers are refused.
"""

from __future__ import annotations

import random
from types import SimpleNamespace

from pystore.controller.server.cluster_check import ClusterCheck
from pystore.controller.server.config import ControllerConfig
from pystore.controller.server.context import ControllerContext
from pystore.controller.server.dynamic_config import DynamicConfig
from pystore.controller.server.new_cluster import NewCluster
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand

OWN = "a" * 32


def test_strangers_are_refused_and_named_a_bounded_number_of_times() -> None:
    """
    Own brokers, and those that tell nothing, are served.
    """
    said: list[str] = []
    settings = DynamicConfig(ControllerConfig(), said.append)
    context = ControllerContext(settings, said.append, lambda: 0, random.Random(1))
    check = ClusterCheck(context, NewCluster(context))
    peer = SimpleNamespace(peer="1.2.3.4:5")

    def code(cluster_id: str) -> int | None:
        fields = {"pystoreClusterId": cluster_id} if cluster_id else {}
        request = RemotingCommand(RequestCode.BROKER_HEARTBEAT, ext_fields=fields)
        refused = check.refusal(request, peer)  # type: ignore[arg-type]
        return None if refused is None else refused.code

    # It never led, and so does not know its record store.
    assert code("b" * 32) is None
    context.cluster_id = OWN
    assert (None, None) == (code(OWN), code(""))
    for number in range(200):
        for _ in range(2):
            assert ResponseCode.OTHER_CLUSTER == code(f"{number:032x}")
    assert 64 == len(said)
    assert "1.2.3.4:5 belongs to the record store " in said[0]
    assert {"pystoreClusterId": OWN} == check.fields
