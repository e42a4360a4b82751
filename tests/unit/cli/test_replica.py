"""
``pystore replica``: follows a master until stopped, whatever happens to it.

Each replica is a process of its own; its master is one of the test's, behind a real
port.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from lib.command_line import PYSTORE, run, run_process
from lib.ha.legacy_master_server import LegacyMaster, listening, serving
from lib.store.stores import SEGMENT, fill
from unit.cli.test_bad_input import in_small_file_system

from pystore.epochs.table import EpochTable
from pystore.message.message import Message
from pystore.store.commit_log import CommitLog

WAIT_S = 60


@pytest.fixture
def master(tmp_path: Path) -> LegacyMaster:
    """
    A master whose log has several segments and two epochs.
    """
    with CommitLog(tmp_path / "master", segment_size=SEGMENT) as log:
        log.begin_epoch(1)
        fill(log, 1000)
        log.begin_epoch(2)
        fill(log, 2000)
        data = b"".join(bytes(block.view) for block in log.blocks())
        return LegacyMaster(data, log.epochs.pairs())


def arguments(root: Path, port: int) -> list[str]:
    """
    Returns the arguments for a learner of a legacy master.
    """
    address = f"127.0.0.1:{port}"
    wishes = ["--protocol", "legacy", "--learner", "--segment-size", str(SEGMENT)]
    return ["replica", str(root), "--master", address, *wishes, "--json"]


@contextmanager
def following(root: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """
    Runs a replica process; kills it at the end if it still runs.
    """
    with subprocess.Popen(
        [*PYSTORE, *arguments(root, port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(
    process: subprocess.Popen[bytes], is_so: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """
    Reads reports until one fulfils the condition.
    """
    assert process.stdout is not None
    for line in process.stdout:
        report: dict[str, Any] = json.loads(line)
        if is_so(report):
            return report
    raise AssertionError(f"it ended: {_rest(process.stderr)}")


def _rest(stream: IO[bytes] | None) -> str:
    assert stream is not None
    return stream.read().decode()


def stop(process: subprocess.Popen[bytes]) -> tuple[dict[str, Any], str]:
    """
    Stops a replica as Ctrl-C does; returns the last report and its stderr.
    """
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=WAIT_S)
    assert 130 == process.returncode, err.decode()
    return json.loads(out.splitlines()[-1]), err.decode()


def warnings_in(stderr: str) -> list[str]:
    """
    Returns the lines about what went wrong.
    """
    return [line for line in stderr.splitlines() if " warning pystore: " in line]


def assert_equal(root: Path, master: LegacyMaster) -> None:
    """
    The replica has the bytes and epochs of the master, and its verdict is whole.
    """
    with CommitLog(root, mode="r") as log:
        held = b"".join(bytes(block.view) for block in log.blocks())
    assert master.log == held
    with CommitLog(root) as log:
        assert log.recovery.is_clean
    verified = run("verify", root)
    assert 0 == verified.exit_code
    assert "whole" in verified.output
    epochs = json.loads(run("epochs", root, "--json").output)["epochs"]
    assert [list(pair) for pair in master.epochs] == [
        [entry["epoch"], entry["startOffset"]] for entry in epochs
    ]


def test_a_replica_follows_and_stops_cleanly(
    master: LegacyMaster, tmp_path: Path
) -> None:
    """
    Each report has the same keys; the last one has the final state.
    """
    root = tmp_path / "copy"
    with serving(master) as port, following(root, port) as process:
        found = wait_for(process, lambda it: it["endOffset"] == master.end)
        last, stderr = stop(process)

    assert found.keys() == last.keys()
    assert 1 == found["schemaVersion"]
    assert ("TRANSFER", 2, master.end, 0, "legacy") == tuple(
        found[key]
        for key in ("state", "epoch", "masterEndOffset", "gapBytes", "protocol")
    )
    assert ("SHUTDOWN", "") == (last["state"], last["reason"])
    assert f": a link to the master at 127.0.0.1:{port} is open\n" in stderr
    assert " warning " not in stderr
    assert_equal(root, master)


def test_a_replica_that_was_killed_while_it_caught_up_continues(
    master: LegacyMaster, tmp_path: Path
) -> None:
    """
    After SIGKILL at any point no byte is missing or stored twice.
    """
    root = tmp_path / "copy"
    with serving(master) as port:
        for limit in (70_001, 200_003, 333_333):
            master.limit = limit
            with following(root, port) as process:
                wait_for(process, lambda it: it["appendedBytes"] > 0)
                process.kill()
        master.limit = 2**62
        with following(root, port) as process:
            wait_for(process, lambda it: it["endOffset"] == master.end)
            stop(process)

    assert_equal(root, master)


KILLED_CUT = """
import os, signal, sys
from pystore.cli import main
from pystore.core.log_writer import LogHandle

def die(log, *_):
    os.kill(os.getpid(), signal.SIGKILL)

setattr(LogHandle, sys.argv.pop(1), die)
main()
"""


@pytest.mark.parametrize("step", ["cut_publish", "cut_apply", "cut_end"])
def test_a_replica_that_was_killed_during_a_cut_continues(
    master: LegacyMaster, tmp_path: Path, step: str
) -> None:
    """
    The next start finishes the cut and receives the bytes of the new master.
    """
    root, master.confirm = tmp_path / "copy", 0
    with serving(master) as port, following(root, port) as process:
        wait_for(process, lambda it: it["endOffset"] == master.end)
        stop(process)
    end = master.epochs[1][1]
    with CommitLog(tmp_path / "other", segment_size=SEGMENT) as log:
        log.writer.log.append_raw(0, master.log[:end])
        for number in range(500):
            log.append(Message("Other", b"%d" % number))
        data = b"".join(bytes(block.view) for block in log.blocks())
    other = LegacyMaster(data, [master.epochs[0], (3, end)])
    with serving(other) as port:
        command = [PYSTORE[0], "-c", KILLED_CUT, step, *arguments(root, port)]
        killed = subprocess.run(command, capture_output=True, check=False)
        assert -signal.SIGKILL == killed.returncode, killed.stderr.decode()
        with following(root, port) as process:
            wait_for(process, lambda it: it["endOffset"] == other.end)
            stop(process)

    assert_equal(root, other)


def test_an_unreachable_master_is_reported_once_and_ctrl_c_is_prompt(
    tmp_path: Path,
) -> None:
    """
    There is one warning on stderr; the stop does not wait for the next attempt.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with following(tmp_path / "copy", port) as process:
        found = wait_for(process, lambda it: it["reason"] != "")
        _, stderr = stop(process)

    line = f"cannot connect to 127.0.0.1:{port}: Connection refused"
    assert line == found["reason"]
    (told,) = warnings_in(stderr)
    assert told.endswith(f": no link to the master at 127.0.0.1:{port}: {line}")


def test_a_peer_that_is_not_a_master_is_reported(tmp_path: Path) -> None:
    """
    A web server answers with its own protocol.
    """

    def answer(link: socket.socket) -> None:
        link.recv(100)
        link.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")

    with listening(answer) as port, following(tmp_path / "copy", port) as process:
        wait_for(process, lambda it: "no answer of a master" in it["reason"])
        _, stderr = stop(process)

    assert 1 == len(warnings_in(stderr))


FULL_DISK = """
: > ../errors
: > ../reports
$P replica s --master 127.0.0.1:$PORT --protocol legacy --learner \
    --segment-size 65536 --json > ../reports 2> ../errors &
replica=$!
for i in $(seq 300); do grep -q "No space left" ../errors && break; sleep 0.2; done
echo "full: $(grep -c "No space left" ../errors)"
rm -f filler
for i in $(seq 300); do
    tail -n 1 ../reports | grep -q '"gapBytes": 0' && break
    sleep 0.2
done
kill -INT $replica
wait $replica
echo "code $?"
$P verify s
tail -n 1 ../reports
"""


def test_a_replica_waits_while_the_disk_is_full(
    master: LegacyMaster, tmp_path: Path
) -> None:
    """
    It reports the reason, and continues when there is space.
    """
    with serving(master) as port:
        filler = "head -c 1800000 /dev/zero > filler\n"
        script = f"PORT={port}\n{filler}{FULL_DISK}"
        lines = in_small_file_system(tmp_path / "small", script)

    full, code, verdict, report = [*lines[:3], lines[-1]]
    assert "full: 0" != full
    assert "code 130" == code
    assert verdict.startswith("s: whole: 3,000 records")
    assert master.end == json.loads(report)["endOffset"]


POISONED = """
import sys
from pystore.cli import main
from pystore.errors import PoisonedError
from pystore.core.log_writer import LogHandle

def refuse(log, offset, data):
    raise PoisonedError("s/commitlog: write-back failed (Input/output error)", errno=5)

LogHandle.append_raw = refuse
main()
"""


def test_a_poisoned_disk_ends_with_a_clear_line(
    master: LegacyMaster, tmp_path: Path
) -> None:
    """
    Exit code 3 and the error of the disk: the connection was not lost.
    """
    with serving(master) as port:
        command = [PYSTORE[0], "-c", POISONED, *arguments(tmp_path / "s", port)]
        done = subprocess.run(command, capture_output=True, check=False)

    assert 3 == done.returncode
    line = b"pystore: s/commitlog: write-back failed (Input/output error)\n"
    assert done.stderr.endswith(line)


def test_without_json_and_terminal_only_the_end_is_printed(
    master: LegacyMaster, tmp_path: Path
) -> None:
    """
    A log file does not get the lines that a terminal overwrites.
    """
    with serving(master) as port:
        command = [*PYSTORE, *arguments(tmp_path / "s", port)[:-1]]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            while not master.acks or master.acks[-1] < master.end:
                assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=WAIT_S)

    assert 0 == process.returncode, "a service manager takes others for a failure"
    assert f"stopped; {tmp_path / 's'} is closed\n" == out.decode()


def test_a_terminal_has_one_line_that_is_overwritten(
    master: LegacyMaster, tmp_path: Path
) -> None:
    """
    The line has offset, gap, delay, rate and epoch.
    """
    ours, theirs = os.openpty()
    with serving(master) as port:
        command = [*PYSTORE, *arguments(tmp_path / "s", port)[:-1]]
        with subprocess.Popen(command, stdout=theirs) as process:
            os.close(theirs)
            seen = b""
            while b"gap 0 B" not in seen:
                seen += os.read(ours, 1000)
            process.send_signal(signal.SIGINT)
            process.wait(WAIT_S)
    os.close(ours)

    line = seen.decode().split("\r\x1b[K")[-1]
    assert line.startswith(f"transfer, offset {master.end:,}, gap 0 B, behind 0 ms, ")
    assert line.rstrip().endswith("epoch 2")
    assert "epoch -1" not in seen.decode()


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (["--master", "host"], "'host' is no HOST:PORT"),
        (["--master", "host:1"], "give --broker-id, or --learner"),
        (["--master", "host:1", "--broker-id", "0"], "0 is not in the range"),
        (["--master", "host:1", "--learner", "--protocol", "v2"], "'v2' is not one of"),
    ],
)
def test_wrong_usage_is_reported_before_a_store_is_created(
    tmp_path: Path, wrong: list[str], complaint: str
) -> None:
    """
    The directory does not exist afterwards.
    """
    result = run("replica", tmp_path / "s", *wrong)

    assert 2 == result.exit_code
    assert complaint in result.output
    assert not (tmp_path / "s").exists()


def test_a_store_that_another_process_writes_is_refused(tmp_path: Path) -> None:
    """
    The replica makes no connection.
    """
    with CommitLog(tmp_path / "s"):
        done = run_process(*arguments(tmp_path / "s", 1))

    assert 3 == done.returncode
    assert b"has the store open for writing" in done.stderr


def test_help_has_an_example() -> None:
    """
    The example has a Java master, the most frequent case.
    """
    assert "--protocol legacy --learner" in run("replica", "--help").output


def test_the_epochs_of_a_replica_are_its_masters(master: LegacyMaster) -> None:
    """
    The fixture has two epochs; with one the tests above would prove less.
    """
    assert 2 == len(EpochTable.of(master.epochs))
