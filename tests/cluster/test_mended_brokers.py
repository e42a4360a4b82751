"""
``pystore recovery mend`` at brokers that serve: processes all, with a writer that waits
for the ack `all` and a reader, while segments are damaged and repaired.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from lib.broker_process import BrokerProcess, node_text, until
from lib.command_line import run, run_json, segment_file
from lib.controller.controller_process import ControllerProcess
from lib.mended_set import SEGMENT, Traffic, damage, fill, mended


@contextmanager
def brokers(folder: Path, names: tuple[str, ...]) -> Iterator[list[BrokerProcess]]:
    """
    A controller and brokers of one set; the first one is master.
    """
    with ExitStack() as stack:
        controller = stack.enter_context(
            ControllerProcess("--store", folder / "records")
        )
        started: list[BrokerProcess] = []
        for name in names:
            text = node_text(
                folder / name,
                controller.address,
                name=name,
                mappedFileSizeCommitLog=SEGMENT,
            )
            started.append(stack.enter_context(BrokerProcess.of(folder, name, text)))
            started[0].await_role("master")
        until(lambda: len(started[0].status()["syncStateSet"]) == len(names))
        yield started


def check_equal(folder: Path, names: tuple[str, ...]) -> None:
    """
    Checks stopped stores: each one is whole, and their logs are equal.
    """
    for name in names:
        (found,) = run_json("verify", folder / name)["stores"]
        assert "whole" == found["verdict"], found
        assert 0 == found["missingEntries"], found
    first, *others = names
    for other in others:
        assert 0 == run("compare", folder / first, folder / other).exit_code


@pytest.mark.parametrize("kind", ["payload bit", "header bit", "missing", "short"])
def test_damage_of_a_broker_that_serves_is_repaired(tmp_path: Path, kind: str) -> None:
    """
    On the master and on the slave, while a writer and a reader go on: no append is
    refused, no read fails, and both logs are equal.
    """
    names = ("one", "two")
    with brokers(tmp_path, names) as (master, slave):
        fill(master, 10)
        until(lambda: len(list((tmp_path / "two/meta/seals").iterdir())) >= 9)
        with Traffic(master, slave) as traffic:
            for name, other, base in (
                ("one", "two", 2 * SEGMENT),
                ("two", "one", 5 * SEGMENT),
            ):
                damage(tmp_path / name, base, kind)
                done = mended(tmp_path / name, tmp_path / other)
                assert [base] == [one["segment"] for one in done["steps"]]
                assert all(one["isDone"] for one in done["steps"])
                before = traffic.acknowledged
                until(lambda: traffic.acknowledged > before + 100)  # noqa: B023
        assert [] == traffic.errors
        until(lambda: slave.status()["endOffset"] == master.status()["endOffset"])
        assert 0 == slave.stop()
        assert 0 == master.stop()
    check_equal(tmp_path, names)


def test_a_replica_that_began_late_is_filled_and_becomes_whole(tmp_path: Path) -> None:
    """
    Before, the controller elects it only unclean; afterwards it takes over, with every
    record and every number.
    """
    with ExitStack() as stack:
        words = ("--store", tmp_path / "records")
        controller = stack.enter_context(ControllerProcess(*words))

        def start(name: str, **more: str | int) -> BrokerProcess:
            text = node_text(
                tmp_path / name,
                controller.address,
                name=name,
                mappedFileSizeCommitLog=SEGMENT,
                **more,
            )
            return stack.enter_context(BrokerProcess.of(tmp_path, name, text))

        master = start("one")
        master.await_role("master")
        with master.client() as client:
            client.append("quiet", [b"q"] * 5)
        fill(master, 6)
        late = start("two", syncFromLastFile="true")
        until(lambda: late.status()["minOffset"] > 0)
        until(lambda: len(master.status()["syncStateSet"]) == 2)
        assert late.status()["isFilling"]
        with Traffic(master, master) as traffic:
            done = mended(tmp_path / "two", tmp_path / "one")
            assert {"fill"} == {one["action"] for one in done["steps"]}
        assert [] == traffic.errors
        until(lambda: late.status()["minOffset"] == 0)
        assert not late.status()["isFilling"]
        until(lambda: late.status()["endOffset"] == master.status()["endOffset"])
        master.kill()
        late.await_role("master")
        with late.client() as client:
            assert 5 == client.append("quiet", [b"q"])["queueOffsets"][0]
            found = client.read(topic="quiet", queueOffset=0)["records"]
            assert 6 == len(found)
        assert 0 == late.stop()
    (found,) = run_json("verify", tmp_path / "two")["stores"]
    assert ("whole", 0) == (found["verdict"], found["missingEntries"])


def test_a_program_without_a_control_socket_is_named(tmp_path: Path) -> None:
    """
    It has the store open: the command changes nothing, and says what to do.
    """
    from pystore import Message, Store  # noqa: PLC0415

    for name in ("a", "b"):
        with Store(tmp_path / name, segment_size=SEGMENT, queue_file_bytes=800) as one:
            one.log.append(Message("t", b"x"))
    with Store(tmp_path / "a"):
        result = run("recovery", "mend", tmp_path / "a", "--from", tmp_path / "b")
    assert 3 == result.exit_code
    assert "is no control socket of that process: name it with --socket" in (
        result.stderr
    )


@pytest.mark.parametrize("size", [None, 0, SEGMENT // 2])
def test_a_broker_with_a_hole_starts_ill_and_opens_after_the_repair(
    tmp_path: Path, size: int | None
) -> None:
    """
    A slave that was killed lacks a middle segment, or has a part of it. The master goes
    on, the slave says what is wrong, and follows again after `pystore recovery mend`.
    """
    with brokers(tmp_path, ("a", "b")) as (master, slave):
        fill(master, 5)
        slave.kill()
        path = segment_file(tmp_path / "b", 2 * SEGMENT)
        if size is None:
            path.unlink()
        else:
            os.truncate(path, size)
        slave.restart()
        status = slave.await_role("ill")
        assert path.name in status["problem"]
        until(lambda: len(master.status()["syncStateSet"]) == 1)
        fill(master, 6)
        words = ("recovery", "mend", tmp_path / "b", "--from", tmp_path / "a")
        assert 0 == run(*words).exit_code
        slave.await_role("following")
        until(lambda: len(master.status()["syncStateSet"]) == 2)
        assert segment_file(tmp_path / "a", 2 * SEGMENT).read_bytes() == (
            path.read_bytes()
        )
        assert [0, 0] == [slave.stop(), master.stop()]
