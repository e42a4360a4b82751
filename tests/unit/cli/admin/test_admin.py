"""
``pystore admin``: mqadmin's commands for controllers, and some more.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import Result
from lib.command_line import PYSTORE, run, run_json
from lib.controller.controller_server import Running, SpokenBroker
from lib.remoting.name_server_peers import registration

from pystore.controller.server.controller import Controller
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection, Handler
from pystore.remoting.controller_bodies import BrokerMemberGroup, ElectMasterBody
from pystore.remoting.controller_headers import (
    ElectMasterRequest,
    ElectMasterResponse,
)
from pystore.remoting.fields import decode_fields, encode_fields
from pystore.remoting.replica_bodies import EpochCache, EpochRow
from pystore.remoting.reply import Reply
from pystore.remoting.server import RemotingServer


@contextmanager
def _serving(store: Path) -> Iterator[str]:
    """
    A controller as a process, with a name server; its address.
    """
    command = [*PYSTORE, "controller", "--listen", "127.0.0.1:0", "--nameserver"]
    command += ["--store", str(store), "--new-cluster"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.kill()


async def _command(*words: str) -> Result:
    return await asyncio.to_thread(run, "admin", *words)


async def _json(*words: str, exit_code: int = 0) -> dict[str, Any]:
    return await asyncio.to_thread(run_json, "admin", *words, exit_code=exit_code)


async def _line(*words: str) -> str:
    """
    Returns the one line of a command that was refused.
    """
    result = await _command(*words)
    assert 3 == result.exit_code, result.output
    (line,) = result.stderr.splitlines()
    return line


async def _led(address: str, controllers: int = 1) -> None:
    leader = address
    while True:
        found = await _json("getControllerMetaData", "-a", leader)
        if found["isLeader"] and len(found["peers"]) == controllers:
            return
        # One that got the leadership has to read the records before it leads.
        leader = found["controllerLeaderAddress"] or address
        await asyncio.sleep(0.05)


async def _join(address: str, client: RemotingClient) -> list[SpokenBroker]:
    """
    Returns three brokers; the first is master, the second in sync.
    """
    at = Running(cast("Controller", None), address, [], client, [])
    brokers = [SpokenBroker(at, number) for number in (1, 2, 3)]
    for broker in brokers:
        await broker.join()
    first, second, _ = brokers
    assert 1 == (await first.elect()).master_broker_id
    members = frozenset({first.member, second.member})
    assert 0 == (await first.alter(members, 1, 1)).code
    first.end, brokers[2].end = 1000, 400
    for broker in brokers:
        await broker.beat(epoch=1)
    return brokers


def test_an_administrator_manages_a_set(tmp_path: Path) -> None:
    """Every command, against a controller that is a process, and brokers by hand."""

    async def main(address: str) -> None:
        await _led(address)
        async with RemotingClient() as client:
            brokers = await _join(address, client)
            try:
                await _looks(address)
                await _changes(address)
                await _cleans(address, brokers)
                await _deletes(address, brokers)
            finally:
                for broker in brokers:
                    await broker.die()

    with _serving(tmp_path / "records") as address:
        asyncio.run(main(address))


async def _looks(address: str) -> None:
    at, name = ("-a", address), ("-bn", "set")
    found = await _json("getSyncStateSet", *at, "-b", "set")
    (one,) = found["sets"]
    assert (1, 1, 2) == (
        one["masterBrokerId"],
        one["masterEpoch"],
        one["syncStateSetEpoch"],
    )
    assert [1, 2] == [each["brokerId"] for each in one["inSync"]]
    assert [3] == [each["brokerId"] for each in one["notInSync"]]
    text = (await _command("getSyncStateSet", *at, "-b", "set")).stdout
    assert ["broker", "set", "set"] == text.splitlines()[0].split()
    found = await _json("describeBrokerSet", *at, *name, exit_code=1)
    assert (1, True, 0) == (
        found["masterBrokerId"],
        found["masterAlive"],
        found["candidates"] != [],
    )
    assert 0 < found["leaseMillis"] < 20_000
    reasons = [each["reason"] for each in found["brokers"]]
    assert ["", "", "it is 600 bytes behind the master"] == reasons
    text = (await _command("describeBrokerSet", *at, *name)).stdout
    assert "broker 3: it is 600 bytes behind the master" == text.splitlines()[-1]
    assert "2011 CONTROLLER_MASTER_STILL_EXIST" in await _line(
        "electMaster", *at, *name, "-c", "cluster", "-b", "1"
    )
    assert "2012 CONTROLLER_ELECT_MASTER_FAILED" in await _line(
        "electMaster", *at, *name, "-c", "cluster", "-b", "3"
    )
    await _refusal_is_kept(address)
    assert "have no broker set x" in (await _line("getSyncStateSet", *at, "-b", "x"))


async def _refusal_is_kept(address: str) -> None:
    words = ("describeBrokerSet", "-a", address, "-bn", "set")
    while True:
        found = await _json(*words, exit_code=1)
        if "lastRefusal" in found:
            break
        await asyncio.sleep(0.02)
    assert 2012 == found["lastRefusal"]["code"]


async def _changes(address: str) -> None:
    at, name = ("-a", address), ("-bn", "set")
    found = await _json("changeBroker", *at, *name, "-b", "3", "--learner")
    assert found["learner"]
    assert "broker set set has no broker 9" in await _line(
        "changeBroker", *at, *name, "-b", "9", "--voter"
    )
    found = await _json("describeBrokerSet", *at, *name)
    assert "it is a learner" == found["brokers"][2]["reason"]
    await _json("changeElections", *at, *name, "--preferred", "2", "--manual")
    found = await _json("describeBrokerSet", *at, *name)
    assert (2, False) == (found["preferredBrokerId"], found["allowElectMaster"])
    assert (0, 2) == (found["copies"], found["wantedCopies"])
    assert 3 == (await _json("setCopies", *at, *name, "3"))["copies"]
    found = await _json("describeBrokerSet", *at, *name)
    assert (3, 3) == (found["copies"], found["wantedCopies"])
    assert (await _json("readmitBroker", *at, *name, "-b", "2"))["readmitted"]
    line = await _line("electMaster", *at, *name, "-c", "cluster", "-b", "2")
    assert "leads too short a time" in line
    assert "no other controller is running" in await _line("transferController", *at)
    key = "enableElectUncleanMaster"
    await _json("updateControllerConfig", *at, "-k", key, "-v", "true")
    found = await _json("getControllerConfig", *at)
    assert "true" == found["controllers"][address][key]
    assert "refused" in await _line(
        "updateControllerConfig", *at, "-k", "rocketmqHome", "-v", "x"
    )


async def _cleans(address: str, brokers: list[SpokenBroker]) -> None:
    at, name = ("-a", address), ("-bn", "set")
    clean = ("cleanBrokerMetadata", *at, *name, "-c", "cluster", "-b", "3")
    assert "2009" in await _line(*clean)
    found = await _json("describeBrokerSet", *at, *name)
    assert 2009 == found["lastRefusal"]["code"]
    await brokers[2].die()
    while (await _json("describeBrokerSet", *at, *name))["brokers"][2]["alive"]:
        await asyncio.sleep(0.02)
    assert [3] == (await _json(*clean))["brokerIds"]
    rows = (await _json("events", *at, "set"))["events"]
    events = [row.get("change") for row in rows]
    assert ["MasterElected", "SetChanged"] == [
        one for one in events if one in ("MasterElected", "SetChanged")
    ][:2]
    assert "BrokersCleaned" == events[-1]
    refused = [row["code"] for row in rows if row["event"] == "SetCommandRefused"]
    assert 2012 in refused, rows
    assert rows[0]["askedBy"].startswith("127.0.0.1:"), rows
    text = (await _command("events", *at, "set")).stdout
    assert len(rows) == len(text.splitlines())
    assert (
        f"broker 3 removed from the set (Clean, asked by {rows[-1]['askedBy']})" in text
    )


async def _deletes(address: str, brokers: list[SpokenBroker]) -> None:
    delete = ("deleteBrokerSet", "-a", address, "-bn", "set", "-c", "cluster")
    assert "brokers 1, 2 are alive" in await _line(*delete)
    assert "2008" in await _line(*delete[:-1], "elsewhere")
    for broker in brokers:
        await broker.die()
    while (await _command(*delete)).exit_code:
        await asyncio.sleep(0.05)
    assert (await _json(*delete))["deleted"]
    assert "have no broker set" in (
        await _line("getSyncStateSet", "-a", address, "-b", "set")
    )


def test_an_operator_elects_the_only_survivor_unclean(tmp_path: Path) -> None:
    """First the range that is lost is shown, and then it is lost and recorded."""

    async def main(address: str) -> None:
        await _led(address)
        async with RemotingClient() as client:
            brokers = await _join(address, client)
            try:
                await _elects_unclean(address, brokers)
            finally:
                for broker in brokers:
                    await broker.die()

    with _serving(tmp_path / "records") as address:
        asyncio.run(main(address))


async def _elects_unclean(address: str, brokers: list[SpokenBroker]) -> None:
    at = ("-a", address, "-bn", "set")
    elect = ("electMaster", *at, "-b", "3")
    assert "broker 1 is alive and lacks no acknowledged" in await _line(
        *elect, "--unclean", "--yes"
    )
    assert 2 == (await _command(*elect, "--yes")).exit_code
    # The master last, or the other member might be master for a moment.
    await brokers[1].die()
    while (await _json("describeBrokerSet", *at, exit_code=1))["brokers"][1]["alive"]:
        await asyncio.sleep(0.02)
    await brokers[0].die()
    while "--unclean" not in (line := await _line(*elect)):
        assert "leads too short" in line, line
        await asyncio.sleep(0.02)
    before = await _json("describeBrokerSet", *at, exit_code=1)
    found = await _json(*elect, "--unclean", exit_code=1)
    lost = {"epoch": 3, "startOffset": 400, "endOffset": 1000, "cause": "unclean"}
    assert (False, [lost]) == (found["elected"], found["losses"])
    assert [("member", 1000), ("member", 0), ("not in sync", 400)] == [
        (one["role"], one["endOffset"]) for one in found["ends"]
    ]
    text = (await _command(*elect, "--unclean")).stdout
    assert "(nothing was changed)" in text
    assert "400 to 1,000" in text
    after = await _json("describeBrokerSet", *at, exit_code=1)
    assert before["masterEpoch"] == after["masterEpoch"]
    assert [] == after["losses"]
    found = await _json(*elect, "--unclean", "--yes")
    assert (True, [lost]) == (found["elected"], found["losses"])
    after = await _json("describeBrokerSet", *at, exit_code=1)
    assert (3, [lost]) == (after["masterBrokerId"], after["losses"])
    rows = (await _json("events", *at[:2], "set"))["events"]
    elected = next(
        one
        for one in rows
        if one["event"] == "SetDegraded" and one["command"].endswith("unclean")
    )
    assert "broker 3 is master in epoch 3" in elected["text"]
    assert "these bytes may be lost: 400 to 1,000 (unclean)" in elected["text"]
    assert "2011" in await _line(*elect, "--unclean", "--yes")


def test_an_operator_transfers_the_leadership(tmp_path: Path) -> None:
    """The masters do not notice."""

    async def main(first: str, second: str) -> None:
        await _led(first, controllers=2)
        told = [
            await _json("getControllerMetaData", "-a", one) for one in (first, second)
        ]
        leader = told[0]["controllerLeaderAddress"]
        (cluster_id,) = {one["clusterId"] for one in told if one["isLeader"]}
        assert 32 == len(cluster_id)
        found = await _json("transferController", "-a", f"{first};{second}")
        assert {"from": leader, "to": ({first, second} - {leader}).pop()} == {
            name: found[name] for name in ("from", "to")
        }

    with ExitStack() as stack:
        store = tmp_path / "records"
        first, second = (stack.enter_context(_serving(store)) for _ in range(2))
        asyncio.run(main(first, second))


def test_epochs_are_asked_of_brokers_that_the_name_server_knows(
    tmp_path: Path,
) -> None:
    """The last one ends where the log does."""
    cache = EpochCache(
        "C", "s", 0, (EpochRow(1, 0, 10), EpochRow(2, 10, 2**63 - 1)), 30
    )

    async def epochs(_: RemotingCommand, __: Connection) -> Reply:
        return Reply(body=cache.encode())

    async def main(server: str) -> None:
        handlers: dict[int, Handler] = {RequestCode.GET_BROKER_EPOCH_CACHE: epochs}
        async with RemotingServer(handlers) as broker, RemotingClient() as client:
            host, port = await broker.start()
            request = registration(host, brokerAddr=f"{host}:{port}")
            assert 0 == (await client.call(server, request)).code
            found = await _json("getBrokerEpoch", "-n", server, "-b", "s")
            assert found == await _json("getBrokerEpoch", "-n", server, "-c", "C")
            (one,) = found["brokers"]
            ends = [(each["epoch"], each["endOffset"]) for each in one["epochs"]]
            assert [(1, 10), (2, 30)] == ends
            text = (await _command("getBrokerEpoch", "-n", server, "-b", "s")).stdout
            assert "2         10   30" in text
            assert "has no cluster X" in await _line(
                "getBrokerEpoch", "-n", server, "-c", "X"
            )

    with _serving(tmp_path / "records") as server:
        asyncio.run(main(server))


def test_a_planned_switch_prints_the_master() -> None:
    """As any controller answers, of RocketMQ or of pystore (RMQ-R55, RMQ-R269)."""

    async def main() -> None:
        async def metadata(_: RemotingCommand, __: Connection) -> Reply:
            return Reply(ext_fields={"controllerLeaderAddress": address})

        async def elect(request: RemotingCommand, _: Connection) -> Reply:
            asked = decode_fields(ElectMasterRequest, request.ext_fields)
            assert (2, True) == (asked.broker_id, asked.designate_elect)
            group = BrokerMemberGroup("C", "s", {1: "h:1", 2: "h:2"})
            return Reply(
                ext_fields=encode_fields(ElectMasterResponse(2, "h:2", 7, 9)),
                body=ElectMasterBody(frozenset({2}), group).encode(),
            )

        handlers: dict[int, Handler] = {
            RequestCode.CONTROLLER_GET_METADATA_INFO: metadata,
            RequestCode.CONTROLLER_ELECT_MASTER: elect,
        }
        async with RemotingServer(handlers) as server:
            host, port = await server.start()
            address = f"{host}:{port}"
            words = ("electMaster", "-a", address, "-bn", "s", "-c", "C", "-b", "2")
            found = await _json(*words)
            assert (2, 7) == (found["masterBrokerId"], found["masterEpoch"])
            assert [1, 2] == [one["brokerId"] for one in found["brokers"]]
            lines = (await _command(*words)).stdout.splitlines()
            assert ["broker set s", "master 2 at h:2"] == [
                " ".join(line.split()) for line in lines[:2]
            ]
            assert ["brokers 1 h:1", "2 h:2"] == [
                " ".join(line.split()) for line in lines[4:]
            ]

    asyncio.run(main())


def test_pystores_own_commands_are_refused_by_rocketmq() -> None:
    """With a line that says so; mqadmin's own commands work with RocketMQ's."""

    async def main() -> None:
        async def metadata(_: RemotingCommand, __: Connection) -> Reply:
            return Reply(ext_fields={"controllerLeaderAddress": address})

        handlers: dict[int, Handler] = {
            RequestCode.CONTROLLER_GET_METADATA_INFO: metadata
        }
        async with RemotingServer(handlers) as server:
            host, port = await server.start()
            address = f"{host}:{port}"
            line = await _line("describeBrokerSet", "-a", address, "-bn", "s")
            assert f"pystore: {address} does not support DESCRIBE_BROKER_SET" in line

    asyncio.run(main())


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["getControllerMetaData"], 2, "-a"),
        (["getControllerMetaData", "-a", "x"], 2, "HOST:PORT"),
        (["getControllerMetaData", "-a", "127.0.0.1:1"], 3, "reached: Connection ref"),
        (["getControllerMetaData", "-a", "localhost:1"], 3, "Connect"),
        (["getSyncStateSet", "-a", "127.0.0.1:1"], 2, "-b NAME"),
        (["getSyncStateSet", "-a", "127.0.0.1:1", "-c", "c"], 3, "-n HOST:PORT"),
        (["electMaster", "-a", "127.0.0.1:1", "-bn", "s", "-b", "0"], 2, "range"),
        (["cleanBrokerMetadata", "-a", "127.0.0.1:1", "-bn", "s"], 2, "-c NAME"),
        (["changeBroker", "-a", "127.0.0.1:1", "-bn", "s", "-b", "1"], 2, "--learner"),
        (["changeElections", "-a", "127.0.0.1:1", "-bn", "s"], 2, "--preferred"),
        (["setCopies", "-a", "127.0.0.1:1", "-bn", "s", "65"], 2, "range 0<=x<=64"),
        (["getBrokerEpoch", "-n", "127.0.0.1:1"], 2, "-b NAME"),
        (["addBroker", "-c", "h:1"], 2, "give the settings: -b PATH on the host"),
        (["addBroker", "-c", "h", "-b", "p"], 2, "-c"),
        (
            ["removeBroker", "-c", "h:1", "-b", "c:b"],
            2,
            "'c:b': expected CLUSTER:NAME:ID",
        ),
        (["removeBroker", "-c", "127.0.0.1:1", "-b", "c:b:1"], 3, "cannot be reached"),
    ],
)
def test_invalid_usage_is_a_one_line_error(
    words: list[str], code: int, text: str
) -> None:
    """Wrong usage is 2, an unreachable peer is 3."""
    result = run("admin", *words)

    assert code == result.exit_code, result.output
    assert text in result.stderr.splitlines()[-1]


def test_every_command_shows_an_example() -> None:
    """As all of pystore's do."""
    names = run("admin", "--help").stdout.split("Commands:")[1].split("Example")[0]
    commands = [line.split()[0] for line in names.strip().splitlines()]

    assert 25 == len(commands)
    for name in commands:
        start = "newKey" if name == "user" else "-"
        text = run("admin", name, "--help").stdout.replace("\n   ", "")
        assert f"pystore admin {name} {start}" in text


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ("changeBroker", "-b", "1", "--learner", "--voter"),
            "--learner and --voter contradict each other",
        ),
        (
            ("changeElections", "--manual", "--automatic"),
            "--automatic and --manual contradict each other",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    words: tuple[str, ...], line: str
) -> None:
    """
    Before any controller is asked; one of them would have won (newcomer B11).
    """
    found = run("admin", *words, "-a", "127.0.0.1:1", "-bn", "b")

    assert 2 == found.exit_code
    assert line in found.output
