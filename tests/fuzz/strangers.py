"""
Strangers at a whole set that enforces: controller, name server, brokers and their
links, as ``pystore init-cluster`` makes them.

    python tests/fuzz/strangers.py --seconds 60 [--processor-seconds 3600] [--seed 7]

Strangers send what `stranger_inputs` draws, over TLS and without it, until the time or
the processor time of all processes has passed. Meanwhile a writer appends with the ack
`all`. Exit codes: 0 the strangers changed nothing and heard only that they are refused,
1 something else was seen, or a refusal was never heard.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from fuzz.stranger import ALERT, HEARD, SENT, SetPorts, send_inputs  # noqa: E402
from fuzz.stranger_inputs import Knowledge  # noqa: E402
from lib.broker_process import until  # noqa: E402
from lib.command_line import run  # noqa: E402
from lib.free_ports import free_port  # noqa: E402

from pystore.access.credentials import CredentialsFile  # noqa: E402
from pystore.broker.control_client import ControlClient  # noqa: E402
from pystore.controller.protocol.calls import (  # noqa: E402
    GetReplicaInfo,
    MasterInfo,
)
from pystore.controller.protocol.client_codec import (  # noqa: E402
    answer_of,
    command_of,
)
from pystore.demo.secured_set import OpenSet, SecuredSet  # noqa: E402
from pystore.demo.set_processes import (  # noqa: E402
    SET_NAME,
    BrokerProgram,
    DemoProcess,
    set_programs,
)
from pystore.errors import PystoreError  # noqa: E402
from pystore.remoting.binding import RequestBinding  # noqa: E402
from pystore.remoting.codes import RequestCode  # noqa: E402
from pystore.remoting.command import RemotingCommand  # noqa: E402
from pystore.remoting.framing import encode_frame  # noqa: E402
from pystore.remoting.signature import signed  # noqa: E402

_SEGMENT = 64 << 20
_STRANGERS = 12
_SEEDS = 1_000
"""Between two seeds of this program, so that no two runs draw the same."""

_TICKS = os.sysconf("SC_CLK_TCK")
_SET = (
    "allowElectMaster",
    "candidates",
    "clusterName",
    "losses",
    "masterBrokerId",
    "masterEpoch",
    "nextBrokerId",
    "pending",
    "preferredBrokerId",
    "syncStateSet",
    "syncStateSetEpoch",
)
_BROKER = ("brokerAddress", "brokerId", "haAddress", "learner", "standing")


class Writer:
    """
    Appends with the ack `all` as long as the block runs.

    Attributes:
        acknowledged: how many were.
        refused: the errors of the others.
        worst_s: the longest of them.
    """

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acknowledged = 0
        self.refused: list[str] = []
        self.worst_s = 0.0

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with ControlClient(self._socket) as client:
            while not self._over.is_set():
                begun_s = time.monotonic()
                try:
                    client.append("t", [bytes(100)] * 8)
                    self.acknowledged += 8
                except PystoreError as error:
                    # Counted, and a violation at the end.
                    self.refused.append(str(error))
                self.worst_s = max(self.worst_s, time.monotonic() - begun_s)
                time.sleep(0.005)


def captured(operator: Path, cluster: str) -> list[bytes]:
    """
    Orders that an operator signed for another connection.
    """
    own = CredentialsFile(operator).now()
    orders: tuple[tuple[RequestCode, dict[str, str], bytes], ...] = (
        (RequestCode.UPDATE_CONTROLLER_CONFIG, {}, b"authentication=off\n"),
        (RequestCode.CONTROLLER_ELECT_MASTER, {"designateElect": "true"}, b""),
        (RequestCode.LIST_USERS, {}, b""),
        (RequestCode.HAND_OVER, {"brokerId": "2"}, b""),
    )
    found = []
    place = {"clusterName": cluster, "brokerName": SET_NAME}
    for code, fields, body in orders:
        request = RemotingCommand(code, ext_fields={**place, **fields}, body=body)
        binding = RequestBinding.new().fields(request)
        found.append(encode_frame(signed(request, own, binding)))
    return found


def members(access: OpenSet, address: str) -> MasterInfo:
    """
    What any reader is told of the set: ids, incarnations, addresses, epoch.
    """

    async def asked() -> object:
        call = GetReplicaInfo(SET_NAME)
        async with access.client() as client:
            return answer_of(call, await client.call(address, command_of(call, 0)))

    found = asyncio.run(asked())
    assert isinstance(found, MasterInfo), found
    return found


def state(address: str, words: list[str]) -> dict[str, Any]:
    """
    What an operator sees of the set, its users and settings, without what moves by
    itself.
    """

    def asked(*command: str) -> Any:
        done = run("admin", *words, *command, "-a", address, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    found = asked("describeBrokerSet", "-bn", SET_NAME)
    return {name: found[name] for name in _SET} | {
        "brokers": [[one[name] for name in _BROKER] for one in found["brokers"]],
        "users": asked("user", "list"),
        "configuration": asked("getControllerConfig"),
        "audit": asked("audit"),
    }


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def _processor_s(pids: list[int]) -> float:
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS


def _master(brokers: list[BrokerProgram]) -> BrokerProgram | None:
    for one in brokers:
        with ControlClient(one.socket) as client:
            (node,) = client.status()
        if node["role"] == "master" and len(node["syncStateSet"]) == len(brokers):
            return one
    return None


def _send_all(
    ports: SetPorts, known: Knowledge, pids: list[int], options: argparse.Namespace
) -> tuple[Counter[str], float, float]:
    """
    Runs the strangers; returns what they heard, and the processor time of them and of
    the set.
    """
    context = multiprocessing.get_context("spawn")
    over, heard = context.Event(), context.Queue()
    strangers = [
        context.Process(
            target=send_inputs,
            args=(ports, known, options.seed * _SEEDS + one, over, heard),
        )
        for one in range(_STRANGERS)
    ]
    for one in strangers:
        one.start()
    mine = [one.pid for one in strangers if one.pid is not None]
    used_s, end_s = _processor_s(pids), time.monotonic() + options.seconds
    own_s = others_s = 0.0
    while time.monotonic() < end_s and own_s + others_s < options.processor_seconds:
        time.sleep(0.2)
        own_s, others_s = _processor_s(mine), _processor_s(pids) - used_s
    over.set()
    total: Counter[str] = Counter()
    for _ in strangers:
        total.update(heard.get(timeout=60))
    for one in strangers:
        one.join()
    return total, own_s, others_s


def _violations(
    heard: Counter[str], before: dict[str, Any], after: dict[str, Any], writer: Writer
) -> list[str]:
    found = [
        f"a stranger heard: {what}" for what in heard.keys() - {*HEARD, *SENT, ALERT}
    ]
    found += [f"no stranger heard: {what}" for what in HEARD if not heard[what]]
    found += [
        f"{name} changed: from {before[name]} to {after[name]}"
        for name in before
        if before[name] != after[name]
    ]
    found += [f"an append failed: {one}" for one in writer.refused[:10]]
    return found


def _held(folder: Path, options: argparse.Namespace) -> list[str]:
    files, names = folder / "access", f"127.0.0.1:{free_port()}"
    controllers, brokers, access = set_programs(
        folder,
        folder,
        {"store": str(folder / "records"), "nameserver": names},
        (1, 3),
        _SEGMENT,
        secured=lambda leading, places: SecuredSet(files, SET_NAME, leading, places),
    )
    programs: list[DemoProcess] = [*controllers, *brokers]
    address = controllers[0].address
    try:
        for one in programs:
            one.start()
        master: BrokerProgram = until(lambda: _master(brokers))
        before = state(address, access.admin_words)
        told = members(access, address)
        cluster = before["clusterName"]
        port = _port(address)
        served = [
            _port(one[_BROKER.index("brokerAddress")]) for one in before["brokers"]
        ]
        ports = SetPorts(
            requests=[port, _port(names), *served],
            links=[_port(told.ha_address)],
            # By default two above that of the broker.
            segments=[one + 2 for one in served],
            authority=str(files / "ca.pem"),
        )
        known = Knowledge(
            cluster=cluster,
            broker_name=SET_NAME,
            epoch=told.master_epoch,
            members=sorted(told.agreed.members, key=lambda one: one.broker_id),
            texts=[address, told.master_address, told.ha_address, "1", "2", "3"],
            users=["brokers", "operator", "clients", "pystore-controller"],
            captured=captured(files / "operator.yml", cluster),
        )
        pids = [one.pid for one in programs]
        with Writer(master.socket) as writer:
            heard, own_s, others_s = _send_all(ports, known, pids, options)
        for one in programs:
            one.check()
        after = state(address, access.admin_words)
    finally:
        for one in programs:
            one.kill()
    print(f"processor time: strangers {own_s:.0f} s, the set {others_s:.0f} s")
    print(f"`all`: {writer.acknowledged} acknowledged, slowest {writer.worst_s:.3f} s")
    for what, count in heard.most_common():
        print(f"{count:>10} {what}")
    return _violations(heard, before, after, writer)


def main() -> int:
    """
    Runs it; returns the exit code.
    """
    parser = argparse.ArgumentParser(description="strangers at a set that enforces")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--processor-seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="pystore-strangers-") as folder:
        found = _held(Path(folder), options)
    for one in found:
        print(f"VIOLATION {one}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
