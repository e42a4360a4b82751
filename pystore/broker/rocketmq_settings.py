"""
Settings of RocketMQ's ``broker.conf`` that contradict what a broker of pystore is.
Pure.

Source: formats 7.1 to 7.3; RMQ-R264; docs/operations.md.
"""

from __future__ import annotations

import os

from pystore.broker.setting_texts import SettingTexts
from pystore.fs.layout import COMMIT_LOG, CONSUME_QUEUE, EPOCH_FILE, IDENTITY_FILE
from pystore.net.address import parse_address

__all__ = ["check_controller_mode", "check_places"]

_PLACES = {
    "storePathCommitLog": COMMIT_LOG,
    "storePathConsumeQueue": CONSUME_QUEUE,
    "storePathEpochFile": EPOCH_FILE,
    "storePathBrokerIdentity": IDENTITY_FILE,
}
"""Settings of single places, and the place in the store."""


def check_controller_mode(texts: SettingTexts) -> None:
    """
    Refuses settings that contradict controller mode.

    Raises:
        InvalidError: there is one.
    """
    advice = "a pystore broker runs under controllers only"
    if not texts.flag("enableControllerMode", default=True):
        raise texts.fail(
            "enableControllerMode",
            f"{advice}: set it to true, and controllerAddr to the controllers",
        )
    if texts.flag("enableDLegerCommitLog", default=False):
        raise texts.fail("enableDLegerCommitLog", f"{advice}: remove the line")
    # What RocketMQ's own examples of controller mode contain.
    if texts.values.get("brokerId", "-1") != "-1":
        raise texts.fail(
            "brokerId",
            "the controller allocates the id: remove the line, or set it to -1",
        )
    if texts.text("brokerRole", "SLAVE").upper() != "SLAVE":
        raise texts.fail(
            "brokerRole",
            "the controller elects the master: remove the line, or set it to SLAVE",
        )


def check_places(texts: SettingTexts) -> None:
    """
    Refuses places where pystore would not look, and where slaves would not.

    Raises:
        InvalidError: there is one.
    """
    store = texts.values.get("store", "")
    for name, usual in _PLACES.items():
        place = texts.values.get(name, "")
        if place and os.path.abspath(place) != os.path.abspath(
            os.path.join(store, usual)
        ):
            raise texts.fail(
                name, f"pystore looks for {usual} in the store: remove the line"
            )
    address = texts.text("address")
    host, _ = texts.parsed("address", parse_address)
    if texts.values.get("brokerIP2", host) != host:
        raise texts.fail(
            "brokerIP2", f"slaves of {address} connect to {host}: remove the line"
        )
