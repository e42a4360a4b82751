"""
A broker node of pystore in a separate process that executes commands and can be killed.

Each line of standard input is a command in JSON, and so is its answer. `PystoreBroker`
is the other end.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lib.store.stores import message

from pystore.access.signer import RequestSigner
from pystore.broker.config import NodeConfig
from pystore.broker.node import BrokerNode
from pystore.errors import FencedError
from pystore.ha.insync.ack import Ack, AckOutcome
from pystore.ha.insync.config import SetRules
from pystore.ha.replica import Replica
from pystore.ha.role import Role
from pystore.net.networks import parse_networks
from pystore.remoting.signature import Credentials

BEAT_MS = 100
ACK_MS = 60_000
WINDOW = 20
RULES = SetRules(serves_synced=False, first_check_ms=500, check_ms=500)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Setting:
    """
    The configuration of a broker; addresses are ``HOST:PORT``.

    Attributes:
        cluster: the name of the cluster.
        broker: the name of the set.
        address: the address of the broker; slaves connect to the next port.
        controller: the address of the controller.
        name_server: the address of the name server.
        store: the directory of the store.
        segment_size: in bytes.
        user: as which it signs; empty: it has no credentials.
        secret: of the user.
        ha_unproven: the addresses of slaves that may go without proofs.
    """

    cluster: str
    broker: str
    address: str
    controller: str
    name_server: str
    store: str
    segment_size: int
    user: str = ""
    secret: str = ""
    ha_unproven: str = ""


class PystoreBroker:
    """
    The process; the constructor returns when the broker is master.

    Args:
        setting: its configuration.
        log: the file of what it says; ``None``: standard error has it.
    """

    def __init__(self, setting: Setting, log: Path | None = None) -> None:
        words = [sys.executable, __file__, json.dumps(asdict(setting))]
        tests = str(Path(__file__).parents[1])
        with nullcontext() if log is None else log.open("ab") as stderr:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=os.environ | {"PYTHONPATH": tests},
                text=True,
            )
        self.standing()

    def append(self, count: int, first: int, ack: Ack = Ack.ALL) -> Json:
        """
        Appends messages and returns the values of `standing`, with the results of the
        appends as ``outcomes``.
        """
        return self._ask({"count": count, "first": first, "ack": ack.name})

    def standing(self) -> Json:
        """
        Returns its epochs, the end and the confirm offset of its log, and the set.
        """
        return self._ask({})

    def kill_while_appending(self, count: int, first: int) -> int:
        """
        Kills the process with SIGKILL while it appends a few messages at a time.

        Returns:
            The number of acknowledged messages.
        """
        self._send({"count": count, "first": first, "window": WINDOW})
        assert self._process.stdout is not None
        for _ in range(3):
            assert self._process.stdout.readline()
        self._process.kill()
        answers = 3 + len(self._process.communicate()[0].splitlines())
        assert answers * WINDOW < count
        return answers * WINDOW

    def kill(self) -> None:
        """
        Kills the process with SIGKILL. May be called again.
        """
        self._process.kill()
        self._process.communicate()

    def _ask(self, command: Json) -> Json:
        assert self._process.stdout is not None
        self._send(command)
        answer: Json = json.loads(self._process.stdout.readline())
        return answer

    def _send(self, command: Json) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()


class _Commands:
    """
    The commands inside the process.
    """

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def execute(self, command: Json) -> None:
        """
        Carries one out, and prints an answer for each window of appends.
        """
        first, count = command.get("first", 0), command.get("count", 0)
        window = command.get("window", count)
        while True:
            numbers = range(first, first + min(window, count))
            outcomes = self._appended(numbers, Ack[command.get("ack", "ALL")])
            answer = self._standing() | {"outcomes": sorted(outcomes)}
            print(json.dumps(answer), flush=True)
            first, count = first + window, count - window
            if count <= 0:
                return

    def _appended(self, numbers: range, ack: Ack) -> set[str]:
        try:
            futures = [self._replica.submit(message(one), ack) for one in numbers]
        except FencedError:
            # Refused before a byte was written.
            return {AckOutcome.FENCED.name}
        return {one.outcome.name for one in self._replica.wait_all(futures, ACK_MS)}

    def _standing(self) -> Json:
        log, standing = self._replica.log.log(), self._replica.standing()
        return {
            "role": standing.role.value,
            "epochs": log.epochs.pairs(),
            "end": log.end_offset,
            "confirm": log.confirm_offset,
            "set": sorted(one.broker_id for one in standing.agreed.members),
            "problem": standing.problem,
        }


def _report(line: object) -> None:
    print(line, file=sys.stderr, flush=True)


def _own_keys(setting: Setting) -> Callable[[], Credentials] | None:
    own = Credentials(setting.user, setting.secret) if setting.user else None
    return None if own is None else lambda: own


async def _main(setting: Setting) -> None:
    keys = _own_keys(setting)
    config = NodeConfig(
        setting.cluster,
        setting.broker,
        setting.address,
        Path(setting.store),
        (setting.controller,),
        (setting.name_server,),
        rules=RULES,
        heartbeat_ms=BEAT_MS,
        poll_ms=BEAT_MS,
        route_ms=BEAT_MS,
        credentials=keys,
        signs=None if keys is None else RequestSigner(keys).sign,
        ha_unproven=parse_networks(setting.ha_unproven, "haUnproven"),
    )
    async with BrokerNode(config, _report, segment_size=setting.segment_size) as node:
        replica = await node.registered()
        is_master = lambda standing: standing.role is Role.MASTER  # noqa: E731
        await asyncio.to_thread(replica.wait_for, is_master, ACK_MS)
        commands = _Commands(replica)
        while line := await asyncio.to_thread(sys.stdin.readline):
            await asyncio.to_thread(commands.execute, json.loads(line))


if __name__ == "__main__":
    logging.basicConfig(format="%(message)s")
    asyncio.run(_main(Setting(**json.loads(sys.argv[1]))))
