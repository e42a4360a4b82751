"""
RocketMQ's configuration decides which end of a log RocketMQ finds.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pystore.cli.lib.rocketmq_config import (
    SETTINGS,
    adjusted,
    parse_settings,
)
from pystore.errors import InvalidError
from pystore.recovery.rocketmq import RocketmqEvidence
from pystore.rocketmq.properties_file import read_properties_file


def test_a_broker_conf_is_read_as_java_reads_it(tmp_path: Path) -> None:
    """
    Comments, blank lines and keys without an effect are ignored.
    """
    path = tmp_path / "broker.conf"
    path.write_text(
        "# forceVerifyPropCRC=false\n\nbrokerName = a\n"
        " forceVerifyPropCRC = TRUE \nodd\n"
    )
    found = adjusted(RocketmqEvidence(is_abort=True), read_properties_file(path))

    assert found.force_property_crc
    assert (True, False) == (found.check_crc, found.is_index_safe)


def test_the_defaults_are_rocketmqs() -> None:
    """
    Without a setting nothing changes.
    """
    assert RocketmqEvidence(is_abort=True) == adjusted(
        RocketmqEvidence(is_abort=True), {}
    )


def test_an_index_counts_only_if_it_is_written_and_safe() -> None:
    """
    Two keys decide it together.
    """
    opening = RocketmqEvidence(is_abort=True)
    safe = {"messageIndexSafe": "true"}

    assert adjusted(opening, safe).is_index_safe
    assert not adjusted(opening, safe | {"messageIndexEnable": "false"}).is_index_safe
    assert not adjusted(opening, {"checkCRCOnRecover": "false"}).check_crc


@pytest.mark.parametrize("text", ["forceVerifyPropCRC", "other=true", "=true"])
def test_a_setting_without_an_effect_is_refused(text: str) -> None:
    """
    Otherwise a misspelled key would be ignored silently.
    """
    with pytest.raises(InvalidError, match="forceVerifyPropCRC"):
        parse_settings((text,))


def test_a_value_is_true_or_false() -> None:
    """
    All four settings are switches.
    """
    assert dict.fromkeys(SETTINGS, "true") == parse_settings(
        tuple(f"{name}=true" for name in SETTINGS)
    )
    with pytest.raises(InvalidError, match="neither true nor false"):
        adjusted(RocketmqEvidence(is_abort=True), {"messageIndexSafe": "yes"})
