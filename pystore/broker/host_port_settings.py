"""
The settings of a host port, at which nodes are added and removed at run time. Pure.

Source: docs/operations.md, *Hosts*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pystore.broker.access_settings import ACCESS_KEYS, AccessSettings, access_of
from pystore.broker.setting_texts import SettingTexts
from pystore.errors import InvalidError
from pystore.net.address import parse_address

__all__ = ["HOST_PORT_KEYS", "HostPortSettings", "host_port_of"]

HOST_PORT_KEYS = (
    "hostAddress",
    "rack",
    "controllerAddr",
    "storeRoot",
    "nodePorts",
    *(one for one in ACCESS_KEYS if one != "haUnproven"),
)
"""The names of these settings."""

_PORT_MAX = (1 << 16) - 1
_RACK_CHARS_MAX = 128


@dataclass(frozen=True, slots=True)
class HostPortSettings:
    """
    How a host is reached, and what nodes it may be given.

    Attributes:
        address: ``HOST:PORT`` where it takes requests of operators.
        controllers: ``HOST:PORT`` of each; of the host, and of the nodes that are
            added.
        store_root: the directory of the stores of these nodes.
        ports: the first and the last port for them; ``None``: each names its own.
        rack: the label of what fails together with this host; empty: none.
        access: how it proves who it is, and what its connections speak.
        defaults: settings of the nodes that are added, if they have no others.
    """

    address: str
    controllers: tuple[str, ...]
    store_root: Path
    ports: tuple[int, int] | None = None
    rack: str = ""
    access: AccessSettings = field(default_factory=AccessSettings)
    defaults: Mapping[str, str] = field(default_factory=dict)

    @property
    def host(self) -> str:
        """
        Its name or IP address, which its nodes share.
        """
        return parse_address(self.address)[0]


def host_port_of(
    texts: SettingTexts, defaults: Mapping[str, str]
) -> HostPortSettings | None:
    """
    Returns the settings of a file; ``None``: the host has no such port.

    Args:
        texts: of the host.
        defaults: of the nodes that are added.

    Raises:
        InvalidError: an invalid value, or one of a host that has no port.
    """
    if "hostAddress" not in texts.values:
        for name in (*HOST_PORT_KEYS, *(["[defaults]"] if defaults else [])):
            if name in texts.values or name == "[defaults]":
                raise InvalidError(
                    f"{texts.where}: {name} is for a host that takes nodes at run "
                    "time: set hostAddress, too"
                )
        return None
    texts.parsed("hostAddress", parse_address)
    controllers = texts.addresses("controllerAddr")
    if not controllers:
        raise InvalidError(
            f"{texts.where}: controllerAddr is missing: a host tells controllers which "
            "nodes it has"
        )
    rack = texts.text("rack", "")
    if len(rack) > _RACK_CHARS_MAX:
        raise texts.fail("rack", f"expected at most {_RACK_CHARS_MAX} characters")
    return HostPortSettings(
        texts.text("hostAddress"),
        controllers,
        Path(texts.text("storeRoot")),
        _ports(texts),
        rack,
        access_of(texts),
        defaults,
    )


def _ports(texts: SettingTexts) -> tuple[int, int] | None:
    text = texts.values.get("nodePorts", "")
    if not text:
        return None
    first, _, last = text.partition("-")
    if (
        first.isascii()
        and last.isascii()
        and first.isdigit()
        and last.isdigit()
        and 0 < int(first[:9]) < int(last[:9]) <= _PORT_MAX
    ):
        return int(first), int(last)
    raise texts.fail(
        "nodePorts", f"expected FIRST-LAST, from 1 to {_PORT_MAX}: a node takes two"
    )
