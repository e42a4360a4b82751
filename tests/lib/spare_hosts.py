"""
Hosts with a host port and no node, for tests.
"""

from __future__ import annotations

from pathlib import Path

from lib.broker_process import SEGMENT
from lib.free_ports import free_port

__all__ = ["SHORT_PERIODS", "node_conf", "spare_text"]

SHORT_PERIODS = (
    "brokerHeartbeatInterval = 100\nsyncBrokerMetadataPeriod = 100\n"
    "checkSyncStateSetPeriod = 300\n"
)


def spare_text(
    root: Path, controller: str, *, periods: str = SHORT_PERIODS, **more: str
) -> str:
    """
    Returns the TOML of a host without a node.

    Args:
        root: of its stores.
        controller: its address.
        periods: lines, for what is added; empty: as the product has them.
        **more: settings of the host that are added or replaced.
    """
    ports = free_port(10)
    settings = {
        "hostAddress": f"127.0.0.1:{free_port(1)}",
        "controllerAddr": controller,
        "storeRoot": str(root),
        "nodePorts": f"{ports}-{ports + 9}",
        "socket": f"{root}.sock",
        **more,
    }
    lines = "".join(f'{name} = "{value}"\n' for name, value in settings.items())
    return f"[host]\n{lines}[defaults]\nmappedFileSizeCommitLog = {SEGMENT}\n{periods}"


def node_conf(name: str = "b", **more: str | int) -> str:
    """
    Returns the settings of a node of a set in the cluster `c`, as 902 sends them.
    """
    settings = {"brokerClusterName": "c", "brokerName": name, **more}
    return "".join(f"{key}={value}\n" for key, value in settings.items())
