"""
The settings of a node that is added to a host at run time, as far as the host allows
them. Pure, but for the places of its stores.

They are those of a ``broker.conf``; what they leave open the host decides: address,
ports, place of the store, controllers, and how the node proves who it is.

Source: docs/operations.md, *Hosts*.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from pystore.broker.access_settings import ACCESS_KEYS
from pystore.broker.host_port_settings import HostPortSettings
from pystore.broker.node_files import name_as_file
from pystore.broker.rocketmq_settings import check_controller_mode, check_places
from pystore.broker.setting_texts import SettingTexts
from pystore.broker.settings import NodeSettings, node_of
from pystore.errors import InvalidError
from pystore.net.address import parse_address

__all__ = ["added_node", "given_of", "node_files_folder"]

_OF_THE_HOST = ("address", "eventHistory", *ACCESS_KEYS)
_FOLDER = "nodes"


def node_files_folder(host: HostPortSettings) -> Path:
    """
    Returns the directory of the files of added nodes.
    """
    return host.store_root / _FOLDER


def given_of(
    values: Mapping[str, str],
    host: HostPortSettings,
    taken: Iterable[int],
    where: str,
) -> dict[str, str]:
    """
    Returns the settings of a node that is to be kept: as they were given, with the port
    and the place of the store that the host chose.

    Args:
        values: as they were given.
        host: that gets the node.
        taken: the ports that its nodes use.
        where: who gave them, for the messages.

    Raises:
        InvalidError: the host does not allow one of them, or none of its ports is free.
    """
    given = {name: one.strip() for name, one in values.items()}
    texts = SettingTexts(dict(given), where)
    for name in _OF_THE_HOST:
        if name in given:
            raise texts.fail(name, "the host decides it: leave it out")
    own = parse_address(host.address)[0]
    if given.get("brokerIP1", own) != own:
        raise texts.fail("brokerIP1", f"its nodes have the address of the host, {own}")
    controllers = texts.addresses("controllerAddr")
    if controllers and set(controllers) != set(host.controllers):
        raise texts.fail(
            "controllerAddr",
            f"its nodes have the controllers of the host, {';'.join(host.controllers)}",
        )
    name = given.get("name") or texts.text("brokerName")
    given["name"] = name
    root = host.store_root
    place = given.pop("store", "") or given.get("storePathRootDir", "")
    given["storePathRootDir"] = place or os.fspath(root / name_as_file(name))
    name_as_file(name)
    _check_place(SettingTexts(given, where), host)
    if "listenPort" not in given:
        given["listenPort"] = str(_free_port(host, taken, where))
    return given


def added_node(
    given: Mapping[str, str], host: HostPortSettings, where: str
) -> NodeSettings:
    """
    Returns the settings of a node.

    Args:
        given: by `given_of`, now or before a restart.
        host: that has the node.
        where: who gave them, for the messages.

    Raises:
        InvalidError: an invalid value.
    """
    values = {**host.defaults, **given}
    values["store"] = values["storePathRootDir"]
    values["controllerAddr"] = ";".join(host.controllers)
    texts = SettingTexts(values, where)
    check_controller_mode(texts)
    port = texts.number("listenPort", 10911, "a port", (1 << 16) - 1)
    own = f"[{host.host}]" if ":" in host.host else host.host
    values["address"] = f"{own}:{port}"
    check_places(texts)
    if "inSyncReplicas" not in values:
        # As in a TOML file the minimum is what it says.
        values["allAckInSyncStateSet"] = "true"
    found = node_of(texts)
    return NodeSettings(
        found.name, found.config, found.options, found.history, host.access
    )


def _check_place(texts: SettingTexts, host: HostPortSettings) -> None:
    """
    Refuses a store outside the root, or where the host has files of its own. Symbolic
    links count as what they point at.
    """
    place = Path(os.path.realpath(texts.values["storePathRootDir"]))
    root = Path(os.path.realpath(host.store_root))
    own = Path(os.path.realpath(node_files_folder(host)))
    if root not in place.parents or place.is_relative_to(own):
        raise texts.fail(
            "storePathRootDir", f"stores of added nodes are in {root}, each in its own"
        )


def _free_port(host: HostPortSettings, taken: Iterable[int], where: str) -> int:
    if host.ports is None:
        raise InvalidError(
            f"{where}: listenPort is missing, and the host has no nodePorts to choose "
            "from"
        )
    used = {*taken, parse_address(host.address)[1]}
    first, last = host.ports
    for port in range(first, last, 2):
        if not {port, port + 1} & used:
            return port
    raise InvalidError(
        f"{where}: all of nodePorts={first}-{last} are taken: remove a node, or name a "
        "listenPort"
    )
