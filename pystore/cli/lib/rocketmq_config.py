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
    "SETTINGS",
    "VALUES",
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

VALUES = ("messageDelayLevel", "mappedFileSizeConsumeQueue")
"""The keys that decide how missing queue entries and queue files are built."""


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
        if not separator or name not in (*SETTINGS, *VALUES):
            known = ", ".join((*SETTINGS, *VALUES))
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
