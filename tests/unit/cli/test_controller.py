"""
``pystore controller``: how it starts and ends.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
from pathlib import Path

import pytest
from lib.command_line import PYSTORE, run
from lib.remoting.zookeeper_server import free_ports

from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand


def test_it_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    """A line says where; SIGTERM ends it cleanly, with the code of that."""
    config = tmp_path / "controller.properties"
    config.write_text("listenPort=0\nmappedFileSize=1\n")
    command = [*PYSTORE, "controller", "-c", str(config)]
    command += ["--store", str(tmp_path / "records")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "pystore controller listens on 127.0.0.1:" in process.stdout.readline()
        assert "mappedFileSize means nothing here" in process.stderr.readline()
        assert "this controller leads" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert ("", "") == process.communicate(timeout=20)
    assert 128 + signal.SIGTERM == process.returncode


def test_others_are_warned_of(tmp_path: Path) -> None:
    """Whoever reaches it may ask for anything."""
    command = [*PYSTORE, "controller", "--listen", ":0"]
    command += ["--store", str(tmp_path / "r")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert "without passwords or encryption" in process.stderr.readline()
        process.terminate()
        process.communicate(timeout=20)


def test_a_zookeeper_that_is_not_there_is_told_once_and_waited_for() -> None:
    """One line of ours says it, and none for each attempt to connect."""
    (port,) = free_ports(1)
    command = [*PYSTORE, "controller", "--listen", "127.0.0.1:0"]
    command += ["--zookeeper", f"127.0.0.1:{port}"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            assert said.startswith("pystore: this controller does not lead: "), said
            assert f"127.0.0.1:{port}: ZooKeeper does not answer: check" in said
            assert process.poll() is None
        finally:
            process.terminate()
            process.communicate(timeout=20)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--nameserver", "localhost:0"], "pystore name server listens on 127.0.0.1:"),
        (["--nameserver"], ""),
    ],
)
def test_its_name_server_has_its_port_or_its_own(
    tmp_path: Path, words: list[str], line: str
) -> None:
    """A second line says where, if that is elsewhere."""
    command = [*PYSTORE, "controller", "--listen", "127.0.0.1:0"]
    command += ["--store", str(tmp_path / "records"), *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            address = process.stdout.readline().split()[-1]
            if line:
                own = process.stdout.readline()
                assert own.startswith(line), own
                address = own.split()[-1]
            assert b"topicList" in asyncio.run(_topics(address))
        finally:
            process.terminate()
            process.communicate(timeout=20)


async def _topics(address: str) -> bytes:
    request = RemotingCommand(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    async with RemotingClient() as client:
        return (await client.call(address, request)).body


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ([], 2, "--store DIR"),
        (["--store", "x", "--listen", "here"], 2, "'here' is no HOST:PORT"),
        (
            ["--store", "x", "--nameserver", "here"],
            2,
            "'here' is no HOST:PORT",
        ),
        (["--store", "{tmp}/no/such", "--listen", "127.0.0.1:0"], 3, "no/such"),
        (["--store", __file__, "--listen", "127.0.0.1:0"], 3, "not a directory: name"),
    ],
)
def test_what_cannot_be_had_is_one_line(
    tmp_path: Path, words: list[str], code: int, text: str
) -> None:
    """Wrong usage, or a place that is not there."""
    result = run("controller", *(one.format(tmp=tmp_path) for one in words))

    assert code == result.exit_code, result.output
    assert text in result.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("c.properties", "is no properties file: byte 0x00 at offset 3 is no text"),
        ("c.toml", "is no TOML file: the byte at offset 4 is not UTF-8"),
    ],
)
def test_a_binary_configuration_is_refused(
    tmp_path: Path, name: str, expected: str
) -> None:
    """The error names the file and the offset; nothing was started."""
    path = tmp_path / name
    path.write_bytes(b"a=1\0\xff\n")

    result = run("controller", "-c", str(path))

    assert 2 == result.exit_code
    assert f"{path} {expected}" in result.stderr
