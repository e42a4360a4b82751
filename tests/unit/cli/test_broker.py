"""
``pystore broker``: how it starts, what it prints, how it ends, and its commands.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from lib.broker_process import BrokerProcess, node_text
from lib.command_line import run, run_json, run_process
from lib.free_ports import free_port

SOCKET = ("--socket", "no/such/socket")


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 0), (signal.SIGHUP, 0), (signal.SIGINT, 130)],
)
def test_a_broker_serves_until_a_signal(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """
    One line for each node when it listens; also without a controller.
    """
    port = free_port()
    nowhere = f"127.0.0.1:{free_port()}"
    address = f"127.0.0.1:{port}"
    text = node_text(tmp_path / "s", nowhere, address=address)
    with BrokerProcess.of(tmp_path, "s", text) as broker:
        assert [f"pystore broker b listens on {address}"] == broker.ready
        assert "starting" == broker.status()["role"]
        assert code == broker.stop(number)
        assert not broker.path.exists()
    assert run("verify", tmp_path / "s").exit_code == 0


def test_a_killed_broker_leaves_a_socket_that_the_next_one_replaces(
    tmp_path: Path,
) -> None:
    """
    While it runs, a second process is refused with exit code 3.
    """
    nowhere = f"127.0.0.1:{free_port()}"
    text = node_text(tmp_path / "s", nowhere)
    with BrokerProcess.of(tmp_path, "s", text) as broker:
        second = run_process("broker", "-c", broker.config)
        assert 3 == second.returncode
        assert b"a living process listens on" in second.stderr
        broker.kill()
        assert broker.path.exists()
        broker.restart()
        assert 0 == broker.stop()


def test_a_broker_conf_of_rocketmq_is_run(tmp_path: Path) -> None:
    """
    What means less than it says is said.
    """
    config = tmp_path / "broker.conf"
    config.write_text(
        "brokerName=b\nbrokerId=-1\nbrokerRole=SLAVE\nenableControllerMode=true\n"
        f"controllerAddr=127.0.0.1:{free_port()}\nlistenPort={free_port()}\n"
        f"storePathRootDir={tmp_path}/s\nflushDiskType=SYNC_FLUSH\ndeleteWhen=04\n"
        "mappedFileSizeCommitLog=1048576\n"
    )
    with BrokerProcess(config, tmp_path / "s.sock") as broker:
        assert "starting" == broker.status()["role"]
        assert "brokerIP1 is not set" in broker.said
        assert "flushDiskType=SYNC_FLUSH is no ack of pystore" in broker.said
        assert "deleteWhen" not in broker.said
        assert 0 == broker.stop()


def test_a_node_that_cannot_start_is_one_line_and_exit_code_3(tmp_path: Path) -> None:
    """
    A directory that is no store.
    """
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "x").write_text("")
    config = tmp_path / "b.toml"
    config.write_text(node_text(tmp_path / "s", "127.0.0.1:9"))

    ended = run_process("broker", "-c", config)
    assert 3 == ended.returncode
    assert b"" == ended.stdout
    (line,) = ended.stderr.decode().splitlines()
    assert " error pystore: a broker of set b, cluster DefaultCluster: " in line
    assert ": b has failed and is closed: " in line
    assert "not a store" in line


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("b.toml", "brokerName = 1\nadr = 'h:1'\n", "adr is no setting here"),
        ("b.toml", "brokerName", "b.toml: "),
        ("b.conf", "brokerName=b\nenableControllerMode=false\n", "set it to true"),
        ("b.conf", "{}", "is not name=value"),
    ],
)
def test_a_wrong_configuration_is_wrong_usage(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    """
    One line, with the file; nothing was opened.
    """
    path = tmp_path / name
    path.write_text(text)

    result = run("broker", "-c", path)
    assert 2 == result.exit_code
    assert str(path) in result.stderr
    assert reason in result.stderr
    assert [path] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        ([], 2, "give -c FILE to run brokers, or a command"),
        (["-c", __file__, "status", *SOCKET], 2, "-c is for running"),
        (["status"], 2, "--socket"),
        (["status", *SOCKET], 3, "no broker answers there: No such file"),
        (["read", *SOCKET, "--queue", "1"], 2, "--queue-offset need --topic"),
        (["read", *SOCKET, "--topic", "t", "--from", "1"], 2, "leave --topic out"),
        (["append", *SOCKET, "--topic", ""], 2, "topic"),
        (["append", *SOCKET, "--topic", "t", "--ack", "none"], 2, "all-synced"),
        (["append", *SOCKET, "--topic", "t"], 3, "no broker answers there"),
    ],
)
def test_a_failed_command_prints_one_line(
    words: list[str], code: int, reason: str
) -> None:
    """
    Wrong usage, or no broker.
    """
    result = run("broker", *words)

    assert code == result.exit_code, result.output
    assert reason in result.stderr.splitlines()[-1]


def test_a_refused_append_reports_what_was_acknowledged(tmp_path: Path) -> None:
    """
    Here nothing, because no controller registered the node; status says so, too.
    """
    nowhere = f"127.0.0.1:{free_port()}"
    text = node_text(tmp_path / "s", nowhere)
    with BrokerProcess.of(tmp_path, "s", text) as broker:
        socket = ("--socket", broker.path)
        words = ("append", *socket, "--topic", "t")
        ended = run_process("broker", *words, stdin=b"a\nb\n")
        assert (3, b"") == (ended.returncode, ended.stdout)
        first, last = ended.stderr.decode().splitlines()
        assert "pystore: line 1: b: no controller has given it a broker id yet" == first
        assert "0 records acknowledged in topic t, queue 0" == last
        (node,) = run_json("broker", "status", *socket)["nodes"]
        assert ("starting", None) == (node["role"], node["brokerId"])
        assert "" == run("broker", "read", *socket).output
        other = run("broker", "status", *socket, "--node", "x")
        assert (3, True) == (other.exit_code, "no node 'x'" in other.stderr)
        assert 0 == broker.stop()


def test_each_line_is_a_json_object_if_that_is_wanted(tmp_path: Path) -> None:
    """
    And the history has the same; the option is stronger than the setting.
    """
    config = tmp_path / "b.toml"
    node = node_text(tmp_path / "s", "127.0.0.1:9", name="n")
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "x").write_text("")
    config.write_text(f"[[node]]\n{node}\n[host]\nlogFormat = 'text'\n")

    ended = run_process("broker", "-c", config, "--log-format", "json")
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [("NodeFailed", "error", "n")] == [
        (line["event"], line["level"], line["node"]) for line in lines
    ]
    kept = (tmp_path / "s.events.jsonl").read_text().splitlines()
    assert lines == [json.loads(line) for line in kept]
