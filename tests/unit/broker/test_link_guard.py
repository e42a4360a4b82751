"""
Links of brokers with proofs, under a real controller with users.
"""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lib.access_fixture import secret_of
from lib.broker_nodes import WAIT_S, master_of, node, until
from lib.broker_users import BROKER, change, known, switch, with_users
from lib.ha.scripted_slave import StrangerSlave
from lib.store.stores import message

from pystore.access.key_file import new_key
from pystore.access.mode import AccessMode
from pystore.access.user_codec import UserAction
from pystore.broker.node import BrokerNode
from pystore.controller.protocol.calls import MasterInfo
from pystore.ha.insync.ack import Ack
from pystore.ha.replica import Replica
from pystore.net.networks import parse_networks


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """A key file."""
    path = tmp_path / "cluster.key"
    path.write_text(new_key())
    path.chmod(0o600)
    return path


class Writer:
    """Appends with `all` in a thread until it is stopped."""

    def __init__(self, master: Replica) -> None:
        self.count = 0
        self.failed: list[object] = []
        self._master = master
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.is_set():
            done = self._master.append(message(1), Ack.ALL)
            self.count += 1
            if not done.is_reached:
                self.failed.append(done)

    def stop(self) -> None:
        """Ends it."""
        self._is_over.set()
        self._thread.join(WAIT_S)


def _is_required(one: BrokerNode) -> bool:
    return one._links.now().is_required


def guard_of(one: BrokerNode) -> Any:
    """Returns what the node knows about proofs."""
    return one._links.now()


def test_a_running_set_goes_from_off_to_enforcing_without_a_refused_write(
    tmp_path: Path, key_file: Path
) -> None:
    """Links are made again with proofs; then strangers are refused."""

    async def main() -> None:
        async with (
            with_users(key_file) as at,
            node(tmp_path, "1", at.address, **known()) as one,
            node(tmp_path, "2", at.address, **known()) as two,
        ):
            master, (slave,) = await master_of(one, two)
            writer = Writer(master)
            await until(lambda: writer.count > 10)
            await switch(at, "enforcing")
            for each in (one, two):
                await until(partial(_is_required, each))
            seen = writer.count
            await until(lambda: writer.count > seen + 100)
            await asyncio.to_thread(writer.stop)
            assert writer.failed == []
            assert await asyncio.to_thread(_stranger_is_refused, master)
            assert slave.standing().problem == ""

    asyncio.run(main())


def _stranger_is_refused(master: Replica) -> bool:
    with StrangerSlave(master.standing().address) as stranger:
        return stranger.greet().reason == "the handshake is refused"


def test_after_a_failover_the_next_master_has_other_secrets(
    tmp_path: Path, key_file: Path
) -> None:
    """And its slave proves itself with them; one that returns, too."""

    async def main() -> None:
        async with (
            with_users(key_file, "enforcing") as at,
            node(tmp_path, "2", at.address, **known()) as two,
        ):
            async with node(tmp_path, "1", at.address, **known()) as one:
                first, _ = await master_of(one, two)
                old = one if first is one.replica else two
                before = guard_of(old).secrets
                successor = two if old is one else one
                assert successor.replica is not None
                await old.hand_over(successor.replica.me.broker_id)
                await until(lambda: guard_of(successor).secrets.of_master)
                after = guard_of(successor).secrets
                assert after.epoch > before.epoch
                assert after.of_master != before.of_master
                master, _ = await master_of(one, two)
                assert master is successor.replica
                assert await asyncio.to_thread(_all_is_reached, master)
            async with node(tmp_path, "1", at.address, **known()) as again:
                master, _ = await master_of(again, two)
                assert await asyncio.to_thread(_all_is_reached, master)

    asyncio.run(main())


def _all_is_reached(master: Replica) -> bool:
    return master.append(message(1), Ack.ALL, 10_000).is_reached


def test_a_secret_that_replaces_another_opens_the_answers(
    tmp_path: Path, key_file: Path
) -> None:
    """While both hold, brokers with either have the secrets of their links."""

    async def main() -> None:
        async with with_users(key_file) as at:
            await change(at, key_file, UserAction.ROTATE, BROKER, 2)
            await switch(at, "enforcing")
            async with (
                node(tmp_path, "1", at.address, **known()) as one,
                node(tmp_path, "2", at.address, **known(secret_of("broker2"))) as two,
            ):
                master, _ = await master_of(one, two)
                assert await asyncio.to_thread(_all_is_reached, master)

    asyncio.run(main())


def test_that_proofs_are_not_required_is_believed_from_a_sealed_answer_only(
    tmp_path: Path, key_file: Path
) -> None:
    """A notice on the way to the broker may be anyone's."""

    async def main() -> None:
        async with (
            with_users(key_file, "enforcing") as at,
            node(tmp_path, "1", at.address, **known()) as one,
        ):
            await master_of(one)
            await until(lambda: guard_of(one).secrets)
            one._links.told(MasterInfo(master_epoch=9, links=AccessMode.OFF))
            assert guard_of(one).is_required
            # The controller's own word comes with the next poll.
            await until(lambda: one._links._seen == one._links._has)
            assert guard_of(one).is_required
            await switch(at, "off")
            await until(lambda: not guard_of(one).is_required)

    asyncio.run(main())


def test_a_broker_without_credentials_says_that_it_has_no_secrets(
    tmp_path: Path, key_file: Path
) -> None:
    """Under controllers that only look, its links go on without proofs."""

    async def main() -> None:
        async with (
            with_users(key_file, "permissive") as at,
            node(tmp_path, "1", at.address) as one,
            node(tmp_path, "2", at.address, **known()) as two,
        ):
            master, _ = await master_of(one, two)
            assert await asyncio.to_thread(_all_is_reached, master)
            assert guard_of(one).secrets is None
            assert "brokers with credentials only" in one._links._said

    asyncio.run(main())


@pytest.mark.parametrize(
    ("networks", "may"), [("127.0.0.0/8", True), ("10.0.0.1", False)]
)
def test_slaves_at_named_addresses_may_go_without_proofs(
    tmp_path: Path, key_file: Path, networks: str, *, may: bool
) -> None:
    """As brokers of RocketMQ have to."""

    async def main() -> None:
        unproven = parse_networks(networks, "haUnproven")
        async with (
            with_users(key_file, "enforcing") as at,
            node(tmp_path, "1", at.address, ha_unproven=unproven, **known()) as one,
        ):
            master, _ = await master_of(one)
            await until(lambda: guard_of(one).secrets)
            assert may != await asyncio.to_thread(_stranger_is_refused, master)

    asyncio.run(main())
