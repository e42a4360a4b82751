"""
``pystore controller`` whose loop, calls or lines stand still does not lead for ever
(C2a): another controller leads within the session.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from lib.command_line import PYSTORE
from lib.controller.controller_process import PATIENCE_S, ControllerProcess
from lib.remoting.zookeeper_server import ZookeeperServer

from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.errors import NoAnswer
from pystore.remoting.framing import encode_frame

SESSION_MS = 2_000
GARBAGE = 1_500

STANDS_STILL = """
import asyncio, signal, threading, time
from pystore.cli import main
from pystore.controller.server.controller import Controller
from pystore.records.lmdb_store import LmdbStore
from pystore.records.zookeeper_store import ZookeeperStore

run, never = Controller._serve, threading.Event()
is_stuck = threading.Event()

async def serve(self, ready):
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, time.sleep, 3600)
    loop.add_signal_handler(signal.SIGUSR2, is_stuck.set)
    await run(self, ready)

def wrapped(commit, word):
    def committed(self, ops):
        keys = [op.key for op in ops if hasattr(op, "key")]
        if is_stuck.is_set() and any(word in key for key in keys):
            never.wait()
        return commit(self, ops)
    return committed

Controller._serve = serve
for one in (LmdbStore, ZookeeperStore):
    one.commit = wrapped(one.commit, "{word}")
main()
"""
"""
A controller whose loop stands still after SIGUSR1, and whose commits of a key with some
word do after SIGUSR2.
"""


@pytest.fixture(params=["LMDB", "ZooKeeper"])
def words(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str | Path, ...]:
    """
    The options of each controller: the records, and a short session.
    """
    config = tmp_path / "controller.toml"
    config.write_text(f"zookeeperSessionTimeout = {SESSION_MS}\n")
    if request.param == "LMDB":
        return ("-c", config, "--store", tmp_path / "records")
    server: ZookeeperServer = request.getfixturevalue("zookeeper")
    return ("-c", config, "--zookeeper", server.hosts)


@pytest.mark.parametrize(
    ("number", "word", "reason"),
    [
        ("SIGUSR1", "none", "the event loop stood still"),
        ("SIGUSR2", "sets", "a call to the record store has not ended"),
        ("SIGUSR2", "proof", "a call to the record store has not ended"),
    ],
    ids=["loop", "commits", "proofs"],
)
def test_another_controller_leads(
    words: tuple[str | Path, ...], number: str, word: str, reason: str
) -> None:
    """
    The one that stands still says why, and ends or campaigns again.
    """
    if "--store" in words and word == "proof":
        pytest.skip("the lock of LMDB needs no proof")
    script, name = STANDS_STILL.format(word=word), f"set of {word}"
    with ControllerProcess(*words, script=script) as first:
        first.await_lead()
        with ControllerProcess(*words) as second:
            first.child.send_signal(getattr(signal, number))
            began_s = time.monotonic()
            if word == "sets":
                with contextlib.suppress(NoAnswer):
                    # Of a new set, so that it is a commit.
                    first.apply(1, name)
            second.await_lead()
            took_s = time.monotonic() - began_s
            assert 0 == second.apply(1, name).code
            first.wait_for(reason)
            first.kill()
    # The limit, as long again to close the session, and this machine's own pauses.
    assert took_s < 2 * SESSION_MS / 1000 + 10


def test_a_reader_of_stderr_that_takes_nothing_stops_no_answer(tmp_path: Path) -> None:
    """
    Many peers send garbage, each of which is a line; a pipe has room for some hundred.
    """
    command = [*PYSTORE, "controller", "--listen", "127.0.0.1:0"]
    command += ["--store", str(tmp_path / "records")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        host, port = process.stdout.readline().split()[-1].rsplit(":", 1)
        for _ in range(GARBAGE):
            with socket.create_connection((host, int(port)), PATIENCE_S) as peer:
                peer.sendall(b"\xff" * 8)
                assert b"" == peer.recv(1)
        with socket.create_connection((host, int(port)), PATIENCE_S) as peer:
            ask = RemotingCommand(RequestCode.CONTROLLER_GET_METADATA_INFO)
            peer.sendall(encode_frame(ask))
            peer.settimeout(PATIENCE_S)
            assert b"isLeader" in peer.recv(1 << 16)
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
    assert 0 == process.returncode
