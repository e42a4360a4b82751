"""
The configuration of a controller, from RocketMQ's file or ours (RMQ-R257).
"""

from __future__ import annotations

import pytest

from pystore.controller.server.config import (
    ConfigFile,
    ControllerConfig,
    parse_toml,
    properties_text,
    settings_of_properties,
    shown,
)
from pystore.errors import InvalidError
from pystore.rocketmq.properties_file import parse_properties_text


def settings_of(text: str) -> ConfigFile:
    """
    Returns what a controller takes from a properties file.
    """
    return settings_of_properties(parse_properties_text(text, "file"), "file")


def test_a_file_of_rocketmq_has_addresses_and_settings() -> None:
    """The peers have the address; settings without a meaning here are reported."""
    texts, said, _ = settings_of(
        "# a comment\ncontrollerDLegerGroup = g\nbindAddress=10.0.0.2\n"
        "controllerDLegerPeers=n0-10.0.0.1:9877;n1-10.0.0.2:9878\n"
        "controllerDLegerSelfId=n1\ncontrollerStorePath=/data\nmappedFileSize=1\n"
        "enableElectUncleanMaster=true\njRaftGroupId=x\n"
    )

    assert ControllerConfig(
        listen="10.0.0.2:9878",
        address="10.0.0.2:9878",
        store="/data",
        controller_group="g",
        enable_elect_unclean_master=True,
    ) == ControllerConfig().with_texts(texts, is_running=False)
    assert ["jRaftGroupId", "mappedFileSize"] == [line.split()[1] for line in said]


def test_a_file_of_rocketmq_says_who_may_speak_and_how() -> None:
    """Its names of authentication and TLS."""
    texts, _, _ = settings_of(
        "bindAddress=10.0.0.2\nlistenPort=9878\ncontrollerStorePath=/data\n"
        "keyFile=/f\nauthenticationEnabled=true\ntls.server.mode=enforcing\n"
        "tls.server.certPath=/c\ntls.server.keyPath=/k\n"
        "tls.server.trustCertPath=/a\ntls.server.need.client.auth=require\n"
    )

    assert ControllerConfig(
        listen="10.0.0.2:9878",
        store="/data",
        key_file="/f",
        authentication="enforcing",
        tls_mode="enforcing",
        tls_certificate="/c",
        tls_key="/k",
        tls_authorities="/a",
        tls_needs_client=True,
    ) == ControllerConfig().with_texts(texts, is_running=False)


def test_a_file_of_ours_has_the_same_names() -> None:
    """TOML, with numbers and truth values as they are."""
    texts, said, _ = parse_toml(
        'listen = ":9878"\nscanInactiveMasterInterval = 100\n'
        "notifyBrokerRoleChanged = false\n",
        "file",
    )

    assert [] == said
    assert ControllerConfig(
        listen=":9878",
        scan_inactive_master_interval=100,
        notify_broker_role_changed=False,
    ) == ControllerConfig().with_texts(texts, is_running=False)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nonsense = 1", "nonsense is not a setting"),
        ("scanInactiveMasterInterval = 0", "not a number of milliseconds"),
        ('enableElectUncleanMaster = "yes"', "neither true nor false"),
        ("listen = [1]", "neither text nor a whole number"),
        ("listen", "file: "),
    ],
)
def test_an_invalid_setting_is_refused_by_name(text: str, reason: str) -> None:
    """No unknown setting is ignored silently."""
    with pytest.raises(InvalidError, match=reason):
        ControllerConfig().with_texts(parse_toml(text, "file").texts, is_running=False)


def test_peers_without_the_controller_itself_are_refused() -> None:
    """It would not know where to listen."""
    with pytest.raises(InvalidError, match="'n2'"):
        settings_of("controllerDLegerPeers=n0-h:1\ncontrollerDLegerSelfId=n2")


DLEDGER = (
    "controllerDLegerGroup = group1\n"
    "controllerDLegerPeers = n0-10.0.0.1:9878;n1-10.0.0.2:9878;n2-10.0.0.3:9878\n"
    "controllerDLegerSelfId = n1\ncontrollerStorePath = /data\n"
)
RAFT = (
    "controllerType = jRaft\njRaftGroupId = g\njRaftServerId = 10.0.0.2:9880\n"
    "jRaftInitConf = 10.0.0.1:9880,10.0.0.2:9880,10.0.0.3:9880\n"
    "jRaftControllerRPCAddr = 10.0.0.1:9770,10.0.0.2:9770,10.0.0.3:9770\n"
    "controllerStorePath = /data\n"
)


@pytest.mark.parametrize("text", [DLEDGER, RAFT], ids=["DLedger", "jRaft"])
def test_several_controllers_need_common_records(text: str) -> None:
    """
    RocketMQ's file of three peers, as it is: each of ours would lead alone. Over
    ZooKeeper it is taken, and the directory of RocketMQ's own records is not.
    """
    found = settings_of(text)
    with pytest.raises(InvalidError, match=r"names 3 controllers .*--zookeeper"):
        found.check_peers("file", "")
    found.check_peers("file", "zk:2181")

    again = settings_of(text + "zookeeper = zk:2181\n")
    config = ControllerConfig().with_texts(again.texts, is_running=False)
    assert ("", "zk:2181") == (config.store, config.zookeeper)
    assert config.listen == config.address == again.peers[1]
    assert config.address.startswith("10.0.0.2:")


def test_one_controller_of_rocketmqs_files_is_taken_as_it_is() -> None:
    """
    It listens where its peers' list says that it is reached.
    """
    found = settings_of(
        "controllerDLegerPeers=n0-10.0.0.1:9877\ncontrollerDLegerSelfId=n0\n"
        "controllerStorePath=/data\n"
    )
    found.check_peers("file", "")
    config = ControllerConfig().with_texts(found.texts, is_running=False)
    assert ("10.0.0.1:9877", "10.0.0.1:9877") == (config.listen, config.address)
    assert "/data" == config.store


def test_a_raft_list_without_the_controller_itself_is_refused() -> None:
    """
    As with DLedger.
    """
    with pytest.raises(InvalidError, match="jRaftServerId"):
        settings_of("jRaftInitConf=h:1,h:2\njRaftServerId=h:3")


def test_the_place_of_a_controller_does_not_change_while_it_runs() -> None:
    """RMQ-R257: it would be another one."""
    with pytest.raises(InvalidError, match="restart"):
        ControllerConfig().with_texts({"store": "/elsewhere"}, is_running=True)


def test_all_settings_are_shown_and_read_back() -> None:
    """1010 shows what 1009 takes."""
    settings = ControllerConfig(enable_elect_unclean_master=True)
    texts, _, _ = settings_of(properties_text(shown(settings)))

    assert settings == ControllerConfig().with_texts(texts, is_running=False)


@pytest.mark.parametrize(
    ("name", "lowest", "highest"),
    [
        ("scanInactiveMasterInterval", 100, 600_000),
        ("storeMapBytes", 1 << 20, 1 << 40),
        ("zookeeperSessionTimeout", 1, (1 << 31) - 1),
    ],
)
def test_numbers_have_bounds(name: str, lowest: int, highest: int) -> None:
    """A scan of all sets each millisecond, or once in 25 days, helps nobody."""
    for value in (lowest, highest):
        text = {name: str(value)}
        assert (
            str(value)
            == shown(ControllerConfig().with_texts(text, is_running=False))[name]
        )
    for value in (lowest - 1, highest + 1, -1, 10**30):
        with pytest.raises(InvalidError, match=f"{lowest} to {highest}"):
            ControllerConfig().with_texts({name: str(value)}, is_running=False)


def test_a_form_of_lines_that_there_is_not_is_refused() -> None:
    """
    Text is the default.
    """
    assert "text" == ControllerConfig().log_format
    with pytest.raises(InvalidError, match="logFormat=xml: expected text or json"):
        ControllerConfig().with_texts({"logFormat": "xml"}, is_running=False)
