"""
The part of RocketMQ's configuration that decides which end RocketMQ would find.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

from pystore.errors import InvalidError
from pystore.fs.layout import IDENTITY_FILE
from pystore.message.java import parse_java_int
from pystore.message.properties import parse_delay_levels
from pystore.recovery.rocketmq import RocketmqEvidence

__all__ = [
    "KEYS",
    "SETTINGS",
    "BrokerValues",
    "adjusted",
    "check_store",
    "parse_settings",
    "values_of",
]

SETTINGS = {
    "checkCRCOnRecover": True,
    "forceVerifyPropCRC": False,
    "messageIndexEnable": True,
    "messageIndexSafe": False,
}
"""The keys that have an effect, with RocketMQ's defaults."""

_SEGMENTS_MAX = "commitLogRecoverMaxNum"
_SEGMENTS_DEFAULT = 10  # for 0 and less

VALUES = ("messageDelayLevel", "mappedFileSizeConsumeQueue")
"""The keys that decide how missing queue entries and queue files are built."""

KEYS = (*SETTINGS, _SEGMENTS_MAX, *VALUES)
"""All keys that have an effect."""

_OTHER_RECOVERIES = {
    "checkCommitLogOffsetOnRecover": (
        "ends the log at a record that contains an offset of another segment"
    ),
    "enableAcceleratedRecovery": "begins behind the records that have queue entries",
}
"""Switches of RocketMQ 5.5, and what its recovery does with them after a crash."""


class BrokerValues(TypedDict, total=False):
    """
    Arguments of `pystore.store.commit_log.CommitLog` from RocketMQ's configuration.
    """

    delay_levels: str
    queue_file_bytes: int


def values_of(texts: Mapping[str, str]) -> BrokerValues:
    """
    Returns the values of `VALUES` that the configuration has.

    Raises:
        InvalidError: RocketMQ does not start with such a value.
    """
    found = BrokerValues()
    if "messageDelayLevel" in texts:
        parse_delay_levels(texts["messageDelayLevel"])
        found["delay_levels"] = texts["messageDelayLevel"]
    if "mappedFileSizeConsumeQueue" in texts:
        text = texts["mappedFileSizeConsumeQueue"]
        size = parse_java_int(text)
        if size is None or size <= 0:
            raise InvalidError(f"mappedFileSizeConsumeQueue={text} is no size in bytes")
        found["queue_file_bytes"] = size
    return found


def check_store(texts: Mapping[str, str], store: Path, segment_size: int) -> None:
    """
    Refuses a configuration of another store, or of one that pystore does not read.

    Args:
        texts: the configuration.
        store: the root of the store.
        segment_size: of its log, in bytes; 0: it has none.

    Raises:
        InvalidError: the setting, and what it means.
    """
    for name in ("storePathCommitLog", "storePathDLedgerCommitLog"):
        paths = texts.get(name, "")
        if "," in paths or ":" in paths:
            raise InvalidError(
                f"{name}={paths} keeps the log in several directories, which pystore "
                "does not read: bring its segments into one commitlog/"
            )
    path = texts.get("storePathBrokerIdentity", "")
    if (
        path
        and Path(path) != store / IDENTITY_FILE
        and Path(path).name != IDENTITY_FILE
    ):
        raise InvalidError(
            f"storePathBrokerIdentity={path} is not read: pystore looks for "
            f"{IDENTITY_FILE} in the store"
        )
    text = texts.get("mappedFileSizeCommitLog", "")
    if text and segment_size and parse_java_int(text) != segment_size:
        raise InvalidError(
            f"mappedFileSizeCommitLog={text}, but the segments of {store} have "
            f"{segment_size} bytes: is it the configuration of another store?"
        )


def parse_settings(texts: tuple[str, ...]) -> dict[str, str]:
    """
    Returns the ``key=value`` pairs of a command line.

    Raises:
        InvalidError: not such a pair, or a key without an effect.
    """
    found = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or name not in KEYS:
            raise InvalidError(
                f"{text!r} is not key=value with one of {', '.join(KEYS)}"
            )
        found[name] = value
    return found


def adjusted(opening: RocketmqEvidence, texts: Mapping[str, str]) -> RocketmqEvidence:
    """
    Returns *opening* with this configuration; other keys are ignored.

    Raises:
        InvalidError: RocketMQ does not start with such a value, or its end is not
            computed with it.
    """
    values = {name: _switch(texts, name) for name in SETTINGS}
    for name, deed in _OTHER_RECOVERIES.items():
        if opening.is_abort and _switch(texts, name):
            raise InvalidError(
                f"{name}={texts[name]}: after a crash RocketMQ's recovery then {deed}, "
                "and pystore does not compute that end: leave the line out to see the "
                "end without it"
            )
    return replace(
        opening,
        is_index_safe=values["messageIndexEnable"] and values["messageIndexSafe"],
        force_property_crc=values["forceVerifyPropCRC"],
        check_crc=values["checkCRCOnRecover"],
        segments_max=_segments_max(texts),
    )


def _switch(texts: Mapping[str, str], name: str) -> bool:
    if name not in texts:
        return SETTINGS.get(name, False)
    text = texts[name].lower()
    if text not in ("true", "false"):
        raise InvalidError(f"{name}={texts[name]} is neither true nor false")
    return text == "true"


def _segments_max(texts: Mapping[str, str]) -> int:
    if _SEGMENTS_MAX not in texts:
        return 0
    found = parse_java_int(texts[_SEGMENTS_MAX])
    if found is None:
        raise InvalidError(f"{_SEGMENTS_MAX}={texts[_SEGMENTS_MAX]} is no whole number")
    return found if found > 0 else _SEGMENTS_DEFAULT
