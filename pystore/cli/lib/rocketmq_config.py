"""
The part of RocketMQ's configuration that decides which end RocketMQ would find.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pystore.errors import InvalidError
from pystore.recovery.rocketmq import RocketmqEvidence

__all__ = ["SETTINGS", "adjusted", "parse_settings"]

SETTINGS = {
    "checkCRCOnRecover": True,
    "forceVerifyPropCRC": False,
    "messageIndexEnable": True,
    "messageIndexSafe": False,
}
"""The keys that have an effect, with RocketMQ's defaults."""


def parse_settings(texts: tuple[str, ...]) -> dict[str, str]:
    """
    Returns the ``key=value`` pairs of a command line.

    Raises:
        InvalidError: not such a pair, or a key without an effect.
    """
    found = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or name not in SETTINGS:
            known = ", ".join(SETTINGS)
            raise InvalidError(f"{text!r} is not key=value with one of {known}")
        found[name] = value
    return found


def adjusted(opening: RocketmqEvidence, texts: Mapping[str, str]) -> RocketmqEvidence:
    """
    Returns *opening* with this configuration; other keys are ignored.

    Raises:
        InvalidError: a value is neither true nor false.
    """
    values = dict(SETTINGS)
    for name in SETTINGS.keys() & texts.keys():
        text = texts[name].lower()
        if text not in ("true", "false"):
            raise InvalidError(f"{name}={texts[name]} is neither true nor false")
        values[name] = text == "true"
    return replace(
        opening,
        is_index_safe=values["messageIndexEnable"] and values["messageIndexSafe"],
        force_property_crc=values["forceVerifyPropCRC"],
        check_crc=values["checkCRCOnRecover"],
    )
