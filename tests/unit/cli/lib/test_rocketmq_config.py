"""
RocketMQ's configuration decides which end of a log RocketMQ finds.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pystore.cli.lib.rocketmq_config import (
    SETTINGS,
    adjusted,
    check_store,
    parse_settings,
    values_of,
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
        " forceVerifyPropCRC = TRUE \nodd=\n"
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
    For the four switches.
    """
    assert dict.fromkeys(SETTINGS, "true") == parse_settings(
        tuple(f"{name}=true" for name in SETTINGS)
    )
    with pytest.raises(InvalidError, match="neither true nor false"):
        adjusted(RocketmqEvidence(is_abort=True), {"messageIndexSafe": "yes"})


def test_the_values_of_a_configuration_go_to_the_opening() -> None:
    """
    Delay levels and the size of queue files; other keys are ignored.
    """
    texts = {
        "messageDelayLevel": "1s 2m",
        "mappedFileSizeConsumeQueue": "6000",
        "brokerName": "a",
    }

    expected = {"delay_levels": "1s 2m", "queue_file_bytes": 6000}
    assert expected == values_of(texts)
    assert {} == values_of({"brokerName": "a"})


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("messageDelayLevel", "soon"),
        ("mappedFileSizeConsumeQueue", "0"),
        ("mappedFileSizeConsumeQueue", "much"),
    ],
)
def test_a_value_with_which_rocketmq_does_not_start_is_refused(
    key: str, text: str
) -> None:
    """
    The message names the key.
    """
    with pytest.raises(InvalidError, match=key):
        values_of({key: text})


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({"storePathCommitLog": "/a/commitlog,/b/commitlog"}, "several directories"),
        ({"storePathCommitLog": "/a:/b"}, "several directories"),
        ({"storePathBrokerIdentity": "/etc/identity"}, "is not read"),
        ({"mappedFileSizeCommitLog": "1048576"}, "of another store"),
        ({"mappedFileSizeCommitLog": "many"}, "of another store"),
    ],
)
def test_the_configuration_of_a_store_that_is_not_read_is_refused(
    texts: dict[str, str], reason: str
) -> None:
    """
    With the setting, its value and what it means.
    """
    with pytest.raises(InvalidError, match=reason) as caught:
        check_store(texts, Path("/data/store"), 65536)

    assert next(iter(texts)) in str(caught.value)


def test_the_limit_of_rocketmq_5_5_s_recovery_is_read() -> None:
    """
    Without the key there is none, as in 5.3; 0 and less are its default.
    """
    opening = RocketmqEvidence(is_abort=True)
    name = "commitLogRecoverMaxNum"

    assert [3, 10, 10] == [
        adjusted(opening, {name: text}).segments_max for text in ("3", "0", "-1")
    ]
    assert 0 == adjusted(opening, {}).segments_max
    assert {name: "3"} == parse_settings((f"{name}=3",))
    with pytest.raises(InvalidError, match=f"{name}=all is no whole number"):
        adjusted(opening, {name: "all"})


@pytest.mark.parametrize(
    "name", ["checkCommitLogOffsetOnRecover", "enableAcceleratedRecovery"]
)
def test_a_setting_that_moves_rocketmqs_end_unseen_is_refused(name: str) -> None:
    """
    After a crash only, and only if it is on.
    """
    opening = RocketmqEvidence(is_abort=True)
    with pytest.raises(InvalidError, match=f"^{name}=True: after a crash"):
        adjusted(opening, {name: "True"})

    assert opening == adjusted(opening, {name: "false"})
    closed = RocketmqEvidence(is_abort=False)
    assert closed == adjusted(closed, {name: "true"})


def test_a_setting_of_rocketmq_5_5_without_an_effect_on_the_log_is_taken() -> None:
    """
    How bytes are written, and Lite Topics, which are light queues.
    """
    texts = {"writeWithoutMmap": "true", "enableLmq": "true", "enableMultiDispatch": ""}
    opening = RocketmqEvidence(is_abort=True)

    check_store(texts, Path("/data/store"), 65536)
    assert opening == adjusted(opening, texts)


def test_the_configuration_of_this_store_is_taken() -> None:
    """
    Also for a copy of the store in another directory.
    """
    texts = {
        "storePathCommitLog": "/data/store/commitlog",
        "storePathBrokerIdentity": "/data/store/brokerIdentity",
        "mappedFileSizeCommitLog": "65536",
    }
    check_store(texts, Path("/tmp/copy"), 65536)
    check_store({"mappedFileSizeCommitLog": "1024"}, Path("/tmp/new"), 0)
