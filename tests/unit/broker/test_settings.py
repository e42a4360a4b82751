"""
The configuration file of `pystore broker`: TOML, or RocketMQ's broker.conf.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pystore.broker.settings import host_of_properties, host_of_toml
from pystore.errors import InvalidError
from pystore.ha.insync.config import SetRules
from pystore.rates.host_rates import RateLimits
from pystore.store.retention import Retention

ONE = """
brokerName = "b"
address = "127.0.0.1:10911"
store = "/data/b"
controllerAddr = ["127.0.0.1:9878", "h:9878"]
"""

# The settings of RocketMQ's quick start with a controller.
SHIPPED = {
    "brokerClusterName": "DefaultCluster",
    "brokerName": "broker-a",
    "brokerId": "-1",
    "brokerRole": "SLAVE",
    "deleteWhen": "04",
    "fileReservedTime": "48",
    "enableControllerMode": "true",
    "controllerAddr": "127.0.0.1:9878",
    "namesrvAddr": "127.0.0.1:9876",
    "allAckInSyncStateSet": "true",
    "listenPort": "30911",
    "storePathRootDir": "/data/node00",
    "storePathCommitLog": "/data/node00/commitlog",
}


def node(number: int, **more: str) -> str:
    """
    One node of several.
    """
    values = {
        "brokerName": f"b{number}",
        "address": f"127.0.0.1:{10_901 + 10 * number}",
        "store": f"/data/b{number}",
        "controllerAddr": "h:9878",
        **more,
    }
    lines = (f'{name} = "{value}"\n' for name, value in values.items())
    return "[[node]]\n" + "".join(lines)


@pytest.mark.parametrize(
    ("lines", "retention"),
    [
        ("", None),
        ("fileReservedTime = 48", Retention(48)),
        ("commitLogBytesMax = 2000000000000", Retention(None, 2 * 10**12)),
        (
            "fileReservedTime = 1\ncommitLogBytesMax = 4096",
            Retention(1, 4096),
        ),
    ],
)
def test_segments_are_deleted_by_age_and_by_size(
    lines: str, retention: Retention | None
) -> None:
    """
    A TOML file that says nothing of it deletes nothing.
    """
    (one,) = host_of_toml(ONE + lines, "f").nodes
    assert retention == one.config.retention


def test_a_broker_conf_keeps_segments_as_long_as_rocketmq_does() -> None:
    """
    72 hours are its default.
    """
    (one,) = host_of_properties(SHIPPED, "f").nodes
    assert Retention(48) == one.config.retention
    silent = {name: one for name, one in SHIPPED.items() if name != "fileReservedTime"}
    (one,) = host_of_properties(silent, "f").nodes
    assert Retention(72) == one.config.retention


@pytest.mark.parametrize(
    "line",
    [
        "fileReservedTime = 0",
        "fileReservedTime = -1",
        'fileReservedTime = "x"',
        "commitLogBytesMax = 0",
        "commitLogBytesMax = 9223372036854775808",
    ],
)
def test_a_limit_that_keeps_nothing_is_refused(line: str) -> None:
    """
    With what is expected.
    """
    with pytest.raises(InvalidError, match="expected a number of"):
        host_of_toml(ONE + line, "f")


def test_a_host_has_rates_for_repairs_if_the_file_says_so() -> None:
    """
    They are of the host, not of a node.
    """
    text = "repairBytesPerSecond = 5\nserveBytesPerSecond = 6\nrepairLatencyMs = 7\n"
    assert RateLimits() == host_of_toml(ONE, "f").limits
    assert RateLimits(5, 6, 7) == host_of_toml(f"{ONE}[host]\n{text}", "f").limits
    with pytest.raises(InvalidError, match="is a setting of the host"):
        host_of_toml(ONE + "serveBytesPerSecond = 6\n", "f")


@pytest.mark.parametrize(
    ("line", "has_crc"), [("", False), ("haBlockCrc = true", True)]
)
def test_a_master_sends_checksums_of_blocks_if_the_file_says_so(
    line: str, has_crc: bool
) -> None:
    """
    From the file to the settings under which the master serves slaves.
    """
    (one,) = host_of_toml(ONE + line, "f").nodes
    replica = one.config.replica_config(1, bool)
    assert has_crc is replica.master_config(1, 1 << 20).has_block_crc


def test_one_node_stands_at_the_top_level() -> None:
    """
    Its socket is beside its store.
    """
    host = host_of_toml(ONE, "f")
    (one,) = host.nodes

    assert "b" == one.name
    assert ("DefaultCluster", "b") == (one.config.cluster, one.config.broker_name)
    assert ("127.0.0.1:9878", "h:9878") == one.config.controllers
    assert ("127.0.0.1:10911", "127.0.0.1:10912") == (
        one.config.address,
        one.config.ha_address,
    )
    assert SetRules() == one.config.rules
    assert (Path("/data/b"), Path("/data/b.sock")) == (one.config.store, host.socket)
    assert "127.0.0.1:10911" == one.options["store_host"]
    assert () == host.said


def test_every_setting_has_its_place() -> None:
    """
    Times in ms, sizes in bytes, lists with ``;`` or as lists.
    """
    host = host_of_toml(
        f"""{ONE}
name = "n"
brokerClusterName = "c"
namesrvAddr = "h:9876;k:9876"
asyncLearner = true
servesSynced = false
masterResignTimeout = 700
minInSyncReplicas = 2
haMaxTimeSlaveNotCatchup = 1000
checkSyncStateSetPeriod = 500
brokerHeartbeatInterval = 200
controllerHeartBeatTimeoutMills = 5000
syncBrokerMetadataPeriod = 300
registerNameServerPeriod = 400
mappedFileSizeCommitLog = 1048576
mappedFileSizeConsumeQueue = 6000
maxMessageSize = 4096
messageDelayLevel = "1s 5s"
enabledAppendPropCRC = false
flushIntervalCommitLog = 100
[host]
socket = "/run/b.sock"
drainTimeout = 100
""",
        "f",
    )
    (one,) = host.nodes
    config = one.config

    assert ("n", "c") == (one.name, config.cluster)
    assert ("h:9876", "k:9876") == config.name_servers
    assert config.is_learner
    rules = SetRules(
        2, serves_synced=False, lag_ms_max=1000, check_ms=500, resign_ms=700
    )
    assert rules == config.rules
    assert (200, 5000) == (config.heartbeat_ms, config.heartbeat_timeout_ms)
    assert (300, 400) == (config.poll_ms, config.route_ms)
    assert {
        "segment_size": 1 << 20,
        "queue_file_bytes": 6000,
        "message_size_max": 4096,
        "delay_levels": "1s 5s",
        "property_crc": False,
        "flush_interval_ms": 100,
        "store_host": "127.0.0.1:10911",
    } == one.options
    assert (Path("/run/b.sock"), 100) == (host.socket, host.drain_ms)


def test_several_nodes_are_a_list() -> None:
    """
    The socket is beside the store of the first one.
    """
    host = host_of_toml(node(1) + node(2, name="x"), "f")

    assert ["b1", "x"] == [one.name for one in host.nodes]
    assert Path("/data/b1.sock") == host.socket


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{ONE}\nbrokerIP1 = 'h'", "f: brokerIP1 is no .* did you mean address"),
        (
            f"{ONE}\nstorePath = 'h'",
            "f: storePath is no setting here: did you mean store",
        ),
        (f"socket = 's'\n{ONE}", r"f: socket is a setting of the host: .* \[host\]"),
        (f'{ONE}\nname = "a\\u0000"', "f: name='a.x00': no text has a NUL"),
        (f"{ONE}\nhaListenPort = 10911", "f: haListenPort=10911: address has this"),
        (f"{ONE}\nhaListenPort = 65535", "f: segmentPort=: there is no port above"),
        (f"{ONE}\nsegmentPort = 10911", "f: segmentPort=10911: clients or slaves"),
        (f"{ONE}\nsegmentPort = 10912", "f: segmentPort=10912: clients or slaves"),
        (f"{ONE}\nhaListenPort = 10910", "f: segmentPort=: clients or slaves"),
        (f"{ONE}\nsegmentPort = 65536", "f: segmentPort=65536: expected a port"),
        (
            f"{ONE}\ncontrollerHeartBeatTimeoutMills = 9",
            "f: brokerHeartbeatInterval=1000: expected less .* which is 9",
        ),
        (f"{ONE}\n[host]\nsocet = 's'", r"f: \[host\]: socet .* mean socket\?"),
        (ONE.replace("[", "[[").replace("]", "]]"), "controllerAddr=.*: expected text"),
        (f"{ONE}\n[[node]]", r"f: brokerName stands beside \[\[node\]\]"),
        ("node = []", r"f: node=\[\]: expected tables"),
        ("node = [1]", r"f: node 1: 1: expected a table"),
        ("host = 1", r"f: host=1: expected a table"),
        (ONE.replace("b", "", 1), "f: .*rokerName is no setting here"),
        (ONE.replace('"b"', '""'), "f: brokerName is missing"),
        (ONE.replace("store", "#"), "f: store is missing"),
        (
            ONE.replace("controllerAddr", "#"),
            "f: controllerAddr is missing: .* HOST:PORT",
        ),
        (
            ONE.replace('"h:9878"', '"h"'),
            "f: controllerAddr=127.*;h: 'h' is no HOST:PORT",
        ),
        (ONE.replace("127.0.0.1:10911", "x"), "f: address=x: 'x' is no HOST:PORT"),
        (
            ONE.replace("127.0.0.1:10911", "0.0.0.0:1"),
            "the one address at which others",
        ),
        (ONE.replace("10911", "65535"), "the port above, and there is none"),
        (
            f"{ONE}\nmaxMessageSize = 0",
            "f: maxMessageSize=0: expected a number of bytes",
        ),
        (
            f"{ONE}\nmaxMessageSize = 2.5",
            "f: maxMessageSize=2.5: expected text, a whole",
        ),
        (f"{ONE}\nasyncLearner = 1", "f: asyncLearner=1: expected true or false"),
        (f"{ONE}\nhaMaxTimeSlaveNotCatchup = -1", "expected a number of milliseconds"),
        (
            f"{ONE}\nminInSyncReplicas = 'x'",
            "f: minInSyncReplicas=x: expected a number of replicas",
        ),
        (f"{ONE}\nminInSyncReplicas = 0", "replicas, from 1 to"),
        (f"{ONE}\nmessageDelayLevel = '1y'", "f: messageDelayLevel=1y: .*'1y' is no"),
        (
            f"{ONE}\nbrokerHeartbeatInterval = 10000",
            "each heartbeat would come too late",
        ),
        (f"{ONE}\n[host]\nsocket = '{'x' * 108}'", "f: socket=x.* 108 bytes, .* 107"),
        (
            f"{ONE}\n[host]\nsocket = '/data/b/s'",
            "f: socket=/data/b/s is inside the store",
        ),
        (node(1) + node(1, address="h:1"), "f: two nodes are called 'b1'"),
        (node(1) + node(2, store="/data/x/../b1"), "b2 and b1 have the store /data/b1"),
        (
            node(1) + node(2, address="127.0.0.1:10910"),
            r"have 127.0.0.1:1091\d \(a broker",
        ),
        (node(1) + node(2, storre="s"), "f: node 2: storre is no setting here"),
    ],
)
def test_a_wrong_setting_is_one_line_that_says_what_is_expected(
    text: str, reason: str
) -> None:
    """
    It names the file, the setting and the value.
    """
    with pytest.raises(InvalidError, match=reason) as caught:
        host_of_toml(text, "f")
    assert 1 == len(str(caught.value).splitlines())


def test_the_longest_path_of_a_socket_is_taken() -> None:
    """
    107 bytes and the last 0.
    """
    path = "/" + "x" * 106

    assert Path(path) == host_of_toml(f"{ONE}\n[host]\nsocket = '{path}'", "f").socket


def test_a_configuration_of_rocketmq_is_taken_as_it_ships() -> None:
    """
    Keys without a meaning here are ignored; of RocketMQ's defaults those count that
    decide about files.
    """
    host = host_of_properties(SHIPPED, "f")
    (one,) = host.nodes

    assert ("broker-a", "127.0.0.1:30911") == (one.name, one.config.address)
    assert ("127.0.0.1:9876",) == one.config.name_servers
    assert Path("/data/node00") == one.config.store
    assert Path("/data/node00.sock") == host.socket
    assert 6_000_000 == one.options["queue_file_bytes"]
    assert 1 == len(host.said)
    assert "brokerIP1 is not set" in host.said[0]


@pytest.mark.parametrize(
    ("changes", "minimum"),
    [
        ({"minInSyncReplicas": "2"}, 2),
        ({"inSyncReplicas": "3"}, 1),
        ({"inSyncReplicas": "3", "allAckInSyncStateSet": "false"}, 3),
    ],
)
def test_the_numbers_of_replicas_mean_what_they_mean_to_rocketmq(
    changes: dict[str, str], minimum: int
) -> None:
    """
    Or something stricter.
    """
    (one,) = host_of_properties(SHIPPED | changes, "f").nodes

    assert minimum == one.config.rules.min_in_sync


def test_a_configuration_of_rocketmq_may_have_our_settings() -> None:
    """
    RocketMQ ignores what it does not know.
    """
    ours = {"socket": "/run/s", "name": "n", "brokerIP1": "::1", "drainTimeout": "7"}
    host = host_of_properties(SHIPPED | ours, "f")

    assert (Path("/run/s"), "n", 7) == (host.socket, host.nodes[0].name, host.drain_ms)
    assert "[::1]:30911" == host.nodes[0].config.address
    assert () == host.said


@pytest.mark.parametrize(
    ("text", "expected"), [("40000", 40000), ("0", 30912), ("-1", 30912)]
)
def test_slaves_connect_to_the_named_port_or_to_the_one_above(
    text: str, expected: int
) -> None:
    """
    As with RocketMQ.
    """
    (one,) = host_of_properties(SHIPPED | {"haListenPort": text}, "f").nodes

    assert f"127.0.0.1:{expected}" == one.config.ha_address


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 30913),
        ({"segmentPort": "0"}, 30913),
        ({"haListenPort": "40000"}, 40001),
        ({"segmentPort": "40000"}, 40000),
    ],
)
def test_segments_are_read_at_the_named_port_or_above_that_for_slaves(
    changes: dict[str, str], expected: int
) -> None:
    """
    A broker uses three ports.
    """
    (one,) = host_of_properties(SHIPPED | changes, "f").nodes

    assert f"127.0.0.1:{expected}" == one.config.segment_address


def test_a_disk_flush_of_rocketmq_is_no_ack() -> None:
    """
    A line says what to use.
    """
    host = host_of_properties(SHIPPED | {"flushDiskType": "SYNC_FLUSH"}, "f")

    assert "flushDiskType=SYNC_FLUSH is no ack of pystore" in host.said[-1]
    assert "leader-synced or all-synced" in host.said[-1]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"enableControllerMode": "false"}, "set it to true, and controllerAddr"),
        ({"enableControllerMode": "no"}, "expected true or false"),
        ({"enableDLegerCommitLog": "true"}, "remove the line"),
        ({"brokerId": "0"}, "f: brokerId=0: the controller allocates the id"),
        ({"brokerRole": "SYNC_MASTER"}, "the controller elects the master"),
        ({"listenPort": "x"}, "f: listenPort=x: expected a port, from 1 to 65535"),
        ({"haListenPort": "x"}, "f: haListenPort=x: expected a port, from 1 to 65535"),
        ({"brokerIP2": "10.0.0.2"}, "connect to 127.0.0.1: remove the line"),
        ({"storePathCommitLog": "/a,/b"}, "looks for commitlog in the store"),
        ({"storePathRootDir": ""}, "f: storePathRootDir is missing"),
        ({"controllerAddr": ""}, "f: controllerAddr is missing"),
        (
            {"minInSyncReplicas": "x"},
            "f: minInSyncReplicas=x: expected a number of replicas",
        ),
    ],
)
def test_what_contradicts_controller_mode_is_refused_with_advice(
    changes: dict[str, str], reason: str
) -> None:
    """
    One line: the file, the setting, its value, and what to do.
    """
    with pytest.raises(InvalidError, match=reason) as caught:
        host_of_properties(SHIPPED | changes, "f")
    assert 1 == len(str(caught.value).splitlines())


def test_the_history_of_events_is_beside_the_store_or_where_it_is_wanted() -> None:
    """
    An empty value is none; the form of lines belongs to the process.
    """
    (beside,) = host_of_toml(ONE, "f").nodes
    (elsewhere,) = host_of_toml(f'{ONE}eventHistory = "/log/e"', "f").nodes
    (none,) = host_of_toml(f'{ONE}eventHistory = ""', "f").nodes
    host = host_of_toml(f'{ONE}[host]\nlogFormat = "json"', "f")

    assert Path("/data/b.events.jsonl") == beside.history
    assert Path("/log/e") == elsewhere.history
    assert none.history is None
    assert ("text", "json") == (host_of_toml(ONE, "f").log_format, host.log_format)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f'{ONE}eventHistory = "/data/b/e"', "f: eventHistory=/data/b/e is inside"),
        (f'{ONE}[host]\nlogFormat = "xml"', "logFormat=xml: expected text or json"),
        (
            node(1, eventHistory="/e") + node(2, eventHistory="/e"),
            "b2 and b1 have the file of events /e: give each its own",
        ),
    ],
)
def test_a_history_without_a_possible_place_is_refused(text: str, reason: str) -> None:
    """
    And a form of lines that there is not.
    """
    with pytest.raises(InvalidError, match=reason):
        host_of_toml(text, "f")
