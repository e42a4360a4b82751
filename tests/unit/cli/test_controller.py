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


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 0), (signal.SIGHUP, 0), (signal.SIGINT, 130)],
)
def test_a_controller_serves_until_a_signal(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """
    A line has the address; a service manager takes any code but 0 for a failure.
    """
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
        assert "mappedFileSize has no meaning here" in process.stderr.readline()
        assert "this controller leads" in process.stderr.readline()
        process.send_signal(number)
        assert ("", "") == process.communicate(timeout=20)
    assert code == process.returncode


def test_an_open_listener_is_refused_or_said_first(tmp_path: Path) -> None:
    """A stranger could send any request."""
    command = [*PYSTORE, "controller", "--listen", ":0"]
    command += ["--store", str(tmp_path / "r")]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "would listen on every address:0, which other machines" in refused.stderr
    assert "without keyFile and tlsMode" in refused.stderr
    command.append("--insecure")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().endswith(
            "insecure: the controller listens on every address:0 without keyFile and "
            "tlsMode\n"
        )
        assert "without passwords or encryption" in process.stderr.readline()
        process.terminate()
        process.communicate(timeout=20)


def test_an_unreachable_zookeeper_is_reported_once_and_awaited() -> None:
    """One line reports it, and attempts to connect cause no more lines."""
    (port,) = free_ports(1)
    command = [*PYSTORE, "controller", "--listen", "127.0.0.1:0"]
    command += ["--zookeeper", f"127.0.0.1:{port}"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            assert "Z warning pystore: this controller does not lead: " in said, said
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
        (["--store", __file__, "--listen", "127.0.0.1:0"], 3, "not a directory: give"),
    ],
)
def test_a_failed_start_prints_one_line(
    tmp_path: Path, words: list[str], code: int, text: str
) -> None:
    """Wrong usage, or a missing directory."""
    result = run("controller", *(one.format(tmp=tmp_path) for one in words))

    assert code == result.exit_code, result.output
    assert text in result.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("c.properties", "is not a properties file: byte 0x00 at offset 3 is not text"),
        ("c.toml", "is not a TOML file: the byte at offset 4 is not UTF-8"),
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


SHIPPED = (
    "controllerDLegerGroup = group1\n"
    "controllerDLegerPeers = "
    "n0-127.0.0.1:9878;n1-127.0.0.1:9868;n2-127.0.0.1:9858\n"
    "controllerDLegerSelfId = "
)
"""What RocketMQ's conf/controller/cluster-3n-independent/controller-n*.conf set."""

HEAD = "<!--\n  The terms of a license, as in:\n\n      http://example.org\n  -->\n\n"
"""A controller-n2.conf of RocketMQ begins so, though it is a properties file."""


@pytest.mark.parametrize(
    "text",
    [
        f"# The terms of a license\n\n{SHIPPED}n0\n",
        f"# The terms of a license\n\n{SHIPPED}n1\n",
        f"{HEAD}{SHIPPED}n2\n",
        "jRaftServerId = h:1\njRaftInitConf = h:1,h:2,h:3\n",
    ],
    ids=["controller-n0", "controller-n1", "controller-n2", "jRaft"],
)
def test_a_file_of_three_controllers_starts_none(tmp_path: Path, text: str) -> None:
    """Each would lead; the line says what to do."""
    path = tmp_path / "controller.properties"
    path.write_text(f"{text}controllerStorePath = {tmp_path}/records\n")
    result = run("controller", "-c", str(path))

    assert 2 == result.exit_code
    assert f"{path}: it names 3 controllers" in result.stderr
    assert "--zookeeper" in result.stderr
    assert not (tmp_path / "records").exists()
