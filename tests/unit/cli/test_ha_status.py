"""
``pystore ha-status`` shows the state of a master, or why it is not known.

The masters are real services on loopback; sockets take the part of faulty peers.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from lib.command_line import run, run_json
from lib.ha.legacy_master_server import LegacyMaster, listening, serving
from lib.ha.master_fixture import EPOCH, MasterStage, Slave
from lib.store.stores import SEGMENT, fill

from pystore.store.commit_log import CommitLog

V3 = ("--cluster", "c", "--broker-name", "b", "--broker-id", "2")


def address_of(stage: MasterStage) -> str:
    """
    Returns the address of the service.
    """
    return "{}:{}".format(*stage.service.address)


def fails_with(port: int, *words: str) -> str:
    """
    Runs the command; returns the one line with the reason of the failure.
    """
    result = run("ha-status", f"127.0.0.1:{port}", "--timeout", "1", *words)
    assert 3 == result.exit_code, result.output
    assert "" == result.stdout
    (line,) = result.stderr.splitlines()
    assert f"pystore: 127.0.0.1:{port}: " in line
    return line


def test_a_v3_master_reports_its_id_and_its_log(tmp_path: Path) -> None:
    """
    The report is JSON with stable keys, or text.
    """
    with CommitLog(tmp_path, segment_size=SEGMENT) as log:
        log.begin_epoch(1)
        fill(log, 400)
        border = log.end_offset
        log.begin_epoch(EPOCH)
        fill(log, 200)
        end = log.end_offset
    with MasterStage(tmp_path) as stage:
        address = address_of(stage)
        found = run_json("ha-status", address, *V3)
        text = run("ha-status", address, *V3)

    assert {
        "schemaVersion": 1,
        "master": address,
        "protocol": "v3",
        "result": "SUCCESS",
        "reason": "",
        "redirect": "",
        "brokerId": 1,
        "epoch": EPOCH,
        "minOffset": 0,
        "endOffset": end,
        "confirmOffset": end,
        "segmentSize": SEGMENT,
        "epochs": [
            {"epoch": 1, "startOffset": 0, "endOffset": border},
            {"epoch": EPOCH, "startOffset": border, "endOffset": end},
        ],
    } == found
    assert 0 == text.exit_code
    for part in (address, "broker id", f"{end:,}", f"{end - border:,}"):
        assert part in text.stdout


def test_a_query_changes_nothing_at_the_master(tmp_path: Path) -> None:
    """
    A slave with the same id continues, and the query is not counted.
    """
    with (
        MasterStage(tmp_path / "m") as stage,
        Slave(stage.service.address, tmp_path / "s"),
    ):
        stage.controller.wait_for({1, 2})
        (before,) = stage.service.links()
        run_json("ha-status", address_of(stage), *V3)

        assert before in stage.service.links()
        assert "" == before.reason
        assert {1, 2} == {one.broker_id for one in stage.controller.agreed.members}
        assert 1 == len(stage.controller.asked)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("--cluster", "other"), "CLUSTER_NAME"),
        (("--broker-name", "other"), "BROKER_NAME"),
        (("--broker-id", "9"), "BROKER_ID"),
    ],
)
def test_a_refusal_is_one_line_and_the_json_has_the_bounds(
    tmp_path: Path, words: tuple[str, ...], name: str
) -> None:
    """
    The line has the name of the result and the reason of the master.
    """
    with MasterStage(tmp_path) as stage:
        fill(stage.log, 10)
        end = stage.log.end_offset
        port = stage.service.address[1]
        line = fails_with(port, *V3, *words)
        found = run("ha-status", address_of(stage), *V3, *words, "--json")

    assert f"the master refused: {name}: " in line
    assert words[1] in line
    assert 3 == found.exit_code
    report = json.loads(found.stdout)
    assert (name, end, EPOCH, []) == tuple(
        report[key] for key in ("result", "endOffset", "epoch", "epochs")
    )
    assert report["reason"] in line


def test_a_java_master_is_asked_as_a_learner(tmp_path: Path) -> None:
    """
    Its protocol has neither broker id nor segment size.
    """
    with CommitLog(tmp_path, segment_size=SEGMENT) as log:
        log.begin_epoch(1)
        fill(log, 300)
        log.begin_epoch(2)
        fill(log, 300)
        data = b"".join(bytes(block.view) for block in log.blocks())
        master = LegacyMaster(data, log.epochs.pairs(), confirm=4711)
    with serving(master) as port:
        address = f"127.0.0.1:{port}"
        found = run_json("ha-status", address, "--protocol", "legacy")
        text = run("ha-status", address, "--protocol", "legacy").stdout

    start = master.epochs[1][1]
    assert ("legacy", 2, 0, master.end, 4711, None, None) == tuple(
        found[key]
        for key in (
            "protocol",
            "epoch",
            "minOffset",
            "endOffset",
            "confirmOffset",
            "brokerId",
            "segmentSize",
        )
    )
    assert [
        {"epoch": 1, "startOffset": 0, "endOffset": start},
        {"epoch": 2, "startOffset": start, "endOffset": master.end},
    ] == found["epochs"]
    assert "broker id" not in text
    assert {0} == set(master.acks)


def test_a_port_without_a_listener_is_one_line() -> None:
    """
    The line says what to do: check the port.
    """
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        line = fails_with(bound.getsockname()[1])
    assert "Connection refused" in line
    assert "HA port" in line


@pytest.mark.parametrize(
    ("protocol", "sent", "reason"),
    [
        ("v3", b"HTTP/1.1 400 Bad Request\r\n\r\n", "a frame of 1213486160 bytes"),
        ("legacy", b"HTTP/1.1 400 Bad Request\r\n\r\n", "state 1213486160"),
        ("v3", b"", "closed the connection"),
        ("legacy", b"", "closed the connection"),
    ],
)
def test_a_peer_that_is_not_a_master_is_one_line(
    protocol: str, sent: bytes, reason: str
) -> None:
    """
    It sends another protocol, or closes the connection.
    """

    def answer(link: socket.socket) -> None:
        link.recv(1 << 16)
        link.sendall(sent)
        link.shutdown(socket.SHUT_WR)
        link.recv(1)

    with listening(answer) as port:
        line = fails_with(port, "--protocol", protocol)
    assert reason in line
    assert "HA port" in line


@pytest.mark.parametrize("protocol", ["v3", "legacy"])
def test_a_silent_peer_is_left_after_the_timeout(protocol: str) -> None:
    """
    A Java master does not answer a v3 handshake.
    """
    with listening(read_to_the_end) as port:
        line = fails_with(port, "--protocol", protocol)
    assert "did not answer in time" in line


def read_to_the_end(link: socket.socket) -> None:
    """
    Reads everything and sends nothing.
    """
    while link.recv(1 << 16):
        pass


@pytest.mark.parametrize(
    "words",
    [
        ("here",),
        ("127.0.0.1:0",),
        ("127.0.0.1:1", "--protocol", "legacy", "--broker-id", "2"),
        ("127.0.0.1:1", "--cluster", "c" * 70_000),
    ],
)
def test_wrong_arguments_are_wrong_usage(words: tuple[str, ...]) -> None:
    """
    The error comes before a connection is made.
    """
    result = run("ha-status", *words)
    assert 2 == result.exit_code, result.output
