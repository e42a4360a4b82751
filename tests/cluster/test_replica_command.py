"""
`pystore replica` and `pystore ha-status` against a master of pystore: processes all.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cluster.master_process import MasterProcess
from lib.command_line import PYSTORE, run_json, run_process
from lib.free_ports import free_port
from lib.ha.master_fixture import data_of
from lib.store.stores import SEGMENT

WAIT_S = 60
SET = ("--cluster", "c", "--broker-name", "b")


OFTEN = """
import pystore.cli.replica
from pystore.cli import main
from pystore.ha.slave.backoff import BackOff

BackOff.__init__.__defaults__ = (20, 200)
pystore.cli.replica._INTERVAL_MS = 50
main()
"""
"""The command, with short waits between two links and between two reports."""


def command(root: Path, port: int) -> list[str | Path]:
    """
    A replica of broker 2.
    """
    master = ("--master", f"127.0.0.1:{port}", "--protocol", "v3")
    own = ("--broker-id", "2", "--segment-size", str(SEGMENT))
    return [*PYSTORE, "replica", root, *master, *SET, *own]


@contextmanager
def following(root: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """
    A replica that reports as JSON; killed if it is still there at the end.
    """
    with subprocess.Popen(
        [PYSTORE[0], "-c", OFTEN, *command(root, port)[3:], "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process: subprocess.Popen[bytes], **expected: object) -> dict[str, Any]:
    """
    Reads reports until one says this.
    """
    assert process.stdout is not None
    for line in process.stdout:
        report: dict[str, Any] = json.loads(line)
        if expected.items() <= report.items():
            return report
    assert process.stderr is not None
    raise AssertionError(process.stderr.read().decode())


def status(port: int) -> subprocess.CompletedProcess[bytes]:
    """
    What `ha-status` says of the master at a port.
    """
    return run_process("ha-status", f"127.0.0.1:{port}", *SET, "--broker-id", "2")


def test_a_replica_equals_its_master_through_kills_and_epochs(tmp_path: Path) -> None:
    """
    The replica is killed, its master is killed and comes back with a new epoch, at
    the same port: the replica goes on by itself, and `ha-status` says how it stands.
    """
    store, root = tmp_path / "master", tmp_path / "copy"
    with MasterProcess(store, 1) as master:
        port, end = master.port, master.append(1_000)
        with following(root, port) as process:
            wait_for(process, endOffset=end, gapBytes=0)
            process.kill()
        end = master.append(1_000)
        with following(root, port) as process:
            wait_for(process, endOffset=end, epoch=1, state="TRANSFER")
            master.kill()
            gone = status(port)
            lost = wait_for(process, state="READY", endOffset=end)
            with MasterProcess(store, 2, port) as second:
                end = second.append(1_000)
                held = {"endOffset": end, "flushedOffset": end, "confirmOffset": end}
                report = wait_for(process, epoch=2, protocol="v3", **held)
                said = status(port).stdout.decode()
                second.close()
            process.send_signal(signal.SIGINT)
            _, complaints = process.communicate(timeout=WAIT_S)

    assert 130 == process.returncode
    assert (True, 0, 0) == (
        report["connected"],
        report["gapBytes"],
        report["behindSeconds"],
    )
    # An alarm on the gap would stay silent for ever (newcomer A7).
    assert (False, None, None) == (
        lost["connected"],
        lost["gapBytes"],
        lost["behindSeconds"],
    )
    assert lost["lastHeardSeconds"] >= 0
    assert 3 == gone.returncode
    assert b"Connection refused" in gone.stderr
    assert f"{end:,}" in said
    warnings = [
        line for line in complaints.decode().splitlines() if " warning " in line
    ]
    assert any(" closed: " in line for line in warnings), complaints
    for line in warnings:
        assert f"the master at 127.0.0.1:{port}" in line
    check_equal(store, root)


def test_a_replica_whose_master_never_answers_is_not_green(tmp_path: Path) -> None:
    """
    It has no gap and no time: nothing is known of its master.
    """
    with following(tmp_path / "copy", free_port()) as process:
        report = wait_for(process, connected=False)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=WAIT_S)

    names = ("lastHeardSeconds", "masterEndOffset", "gapBytes", "behindSeconds")
    assert [None] * 4 == [report[one] for one in names]


def test_a_replica_whose_master_stands_still_says_since_when(tmp_path: Path) -> None:
    """
    The connection is open until its time is over.
    """
    with MasterProcess(tmp_path / "master", 1) as master:
        end = master.append(10)
        with following(tmp_path / "copy", master.port) as process:
            wait_for(process, endOffset=end, connected=True)
            master.pause()
            silent_s = heard_until(process, lambda one: one > 2)
            master.resume()
            after_s = heard_until(process, lambda one: one < 1)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=WAIT_S)

    assert after_s < silent_s


def heard_until(
    process: subprocess.Popen[bytes], is_so: Callable[[float], bool]
) -> float:
    """
    Reads reports until the time since the last bytes of the master is so.
    """
    until_s = time.monotonic() + WAIT_S
    while not is_so(heard_s := wait_for(process)["lastHeardSeconds"]):
        assert time.monotonic() < until_s, heard_s
    return float(heard_s)


def check_equal(store: Path, root: Path) -> None:
    """
    Bytes, epochs, and a verdict for each.
    """
    assert data_of(store) == data_of(root)
    epochs = [run_json("epochs", path)["epochs"] for path in (store, root)]
    assert epochs[0] == epochs[1]
    assert 2 == len(epochs[0])
    (verified,) = run_json("verify", root)["stores"]
    assert ("whole", 3_000) == (verified["verdict"], verified["records"])


LINE = re.compile(
    r"transfer, offset (?P<offset>[\d,]+), gap (?P<gap>[\d.]+ \w+), "
    r"behind (?P<behind>[\d.]+ \w+), (?P<rate>[\d.]+ \w+/s), epoch 1"
)


@pytest.mark.slow
def test_the_live_line_shows_how_a_replica_catches_up(tmp_path: Path) -> None:
    """
    In a terminal: offset, gap in bytes and in time, rate and epoch, until the gap is
    gone; Ctrl-C leaves a clean line.
    """
    ours, theirs = os.openpty()
    with MasterProcess(tmp_path / "m", 1, bytes_per_second=250_000) as master:
        end = master.append(3_000)
        with subprocess.Popen(
            command(tmp_path / "s", master.port), stdout=theirs, stderr=theirs
        ) as process:
            os.close(theirs)
            seen = read_until(ours, b"gap 0 B")
            process.send_signal(signal.SIGINT)
            seen += read_until(ours, b"is closed")
            assert 130 == process.wait(WAIT_S)
    os.close(ours)

    lines = [found for found in map(LINE.match, seen.split("\r\x1b[K")) if found]
    offsets = [int(line["offset"].replace(",", "")) for line in lines]
    assert len(lines) > 2
    assert sorted(offsets) == offsets
    assert end == offsets[-1]
    behind = [line for line in lines if line["gap"] != "0 B"]
    assert any(" s" in line["behind"] for line in behind)
    assert any(line["rate"] != "0 B/s" for line in behind)
    assert "0 ms" == lines[-1]["behind"]
    last = seen.split("\r\x1b[K")[-1].strip().splitlines()[-1]
    assert f"stopped; {tmp_path / 's'} is closed" == last


def read_until(terminal: int, text: bytes) -> str:
    """
    Returns what a terminal shows, up to a text.
    """
    seen = b""
    while text not in seen:
        seen += os.read(terminal, 1_000)
    return seen.decode()
