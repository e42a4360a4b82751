"""
The table ``[recovery]`` of a host: it is a candidate for the Auditor, and a worker.
Pure.

Source: issue *AutoRecovery*, 7; docs/operations.md, *Running brokers*.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pystore.broker.access_settings import AccessSettings
from pystore.broker.setting_texts import SettingTexts
from pystore.errors import InvalidError

__all__ = ["RECOVERY_KEYS", "HostRecoverySettings", "recovery_of"]

RECOVERY_KEYS = (
    "records",
    "controllerConfig",
    "controllerAddr",
    "auditor",
    "worker",
    "slots",
)
"""The names of these settings."""

_SLOTS_MAX = 64


@dataclass(frozen=True, slots=True)
class HostRecoverySettings:
    """
    What a host does for AutoRecovery.

    Attributes:
        records: the record store of the controllers: a directory, or ``HOST:PORT,...``
            of ZooKeeper; empty: `config` names it.
        config: the configuration file of a controller; ``None``: none.
        controllers: ``HOST:PORT`` of each.
        slots: segments that it repairs at once; ``None``: as the settings of
            AutoRecovery say; 0: it only audits.
        is_candidate: it may become the Auditor.
        access: how it proves who it is, and what its connections speak.
    """

    records: str
    config: Path | None
    controllers: tuple[str, ...]
    slots: int | None = None
    is_candidate: bool = True
    access: AccessSettings = field(default_factory=AccessSettings)


def recovery_of(
    texts: SettingTexts, controllers: tuple[str, ...], access: AccessSettings
) -> HostRecoverySettings:
    """
    Returns the settings of a file.

    Args:
        texts: of the table.
        controllers: of the host or its first node: where the table names none.
        access: of the host or its first node.

    Raises:
        InvalidError: an invalid value, or one that is missing.
    """
    records = texts.text("records", "")
    config = texts.text("controllerConfig", "")
    if not (records or config):
        raise InvalidError(
            f"{texts.where}: records is missing: name the record store of the "
            "controllers, DIR or HOST:PORT,..., or their controllerConfig"
        )
    slots: int | None = None
    if "slots" in texts.values:
        slots = texts.number("slots", 0, "a number of segments", _SLOTS_MAX)
    is_candidate = texts.flag("auditor", default=True)
    if not texts.flag("worker", default=True):
        if not is_candidate:
            raise InvalidError(
                f"{texts.where}: with worker=false and auditor=false there is nothing "
                "to do: leave [recovery] out"
            )
        slots = 0
    return HostRecoverySettings(
        records,
        Path(config) if config else None,
        texts.addresses("controllerAddr") or controllers,
        slots,
        is_candidate,
        access,
    )
