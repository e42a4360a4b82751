"""
The nodes of a host that change at run time: how one is added, and how one is removed.

Orders are carried out one after another, each to its end, also if who gave it does not
wait. An added node is kept on disk before it starts, and a removed one is noted there
before it is closed. So a host that was killed has either what it was told or what it
had before.

Source: docs/operations.md, *Hosts*.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pystore.broker.added_settings import added_node, given_of, node_files_folder
from pystore.broker.host_port_settings import HostPortSettings
from pystore.broker.node_files import NodeFiles
from pystore.broker.node_status import HostedNode
from pystore.broker.settings import NodeSettings
from pystore.errors import InvalidError, PystoreError, UnavailableError
from pystore.ha.role import Role
from pystore.net.address import parse_address
from pystore.replicaset import ids_of

__all__ = ["HostedSets", "NoSuchReplica", "NodeRuns", "settings_file"]

_HAND_OVER_MS = 2_000


_T = TypeVar("_T")


class NoSuchReplica(InvalidError):
    """
    The host carries no such replica.
    """


class NodeRuns(Protocol):
    """
    The running nodes of a host. One event loop.
    """

    @property
    def nodes(self) -> Mapping[str, HostedNode]:
        """
        Those that it has, by name.
        """
        ...

    def check(self, settings: NodeSettings) -> None:
        """
        Makes sure that a node fits to those that are there.

        Raises:
            InvalidError: it has a name, a store, a port or a history of another one.
        """
        ...

    async def begin(self, settings: NodeSettings) -> None:
        """
        Starts a node.

        Raises:
            PystoreError: it cannot start, and is not there.
            OSError: as that.
        """
        ...

    async def end(self, name: str) -> None:
        """
        Closes a node; it is not there any more. Problems are told as events.
        """
        ...


class HostedSets:
    """
    Adds and removes nodes of one host. For one event loop.

    Args:
        host: what it allows.
        runs: its running nodes.
        say: receives one line for the operator.
        files: of the nodes that were added and removed; by default those in the store
            root.
    """

    def __init__(
        self,
        host: HostPortSettings,
        runs: NodeRuns,
        say: Callable[[str], object],
        files: NodeFiles | None = None,
    ) -> None:
        self._host = host
        self._runs = runs
        self._say = say
        self._files = files or NodeFiles(node_files_folder(host))
        self._configured: frozenset[str] = frozenset()
        self._order = asyncio.Lock()
        self._under_way: set[asyncio.Task[Any]] = set()

    async def stored(
        self, configured: Mapping[str, NodeSettings]
    ) -> dict[str, NodeSettings]:
        """
        Returns the nodes that the host has at its start: the configured ones and those
        that were added, without those that were removed.

        Args:
            configured: by name, of the configuration file.

        Raises:
            PystoreError: the files cannot be read.
        """
        self._configured = frozenset(configured)
        await asyncio.to_thread(self._files.prepare, self._configured)
        removed = self._files.removed()
        found = {}
        for name, one in configured.items():
            if name in removed:
                self._say(
                    f"node {name} was removed from this host: remove it from the "
                    "configuration file, too"
                )
            else:
                found[name] = one
        for name, given in (await asyncio.to_thread(self._files.added)).items():
            where = f"{self._files.folder}: node {name}"
            try:
                if isinstance(given, str):
                    raise InvalidError(given)
                found[name] = added_node(given, self._host, where)
            except InvalidError as error:
                # Damaged, or the host allows it no more: the others start.
                self._say(f"node {name} is not started: {error}")
        return found

    async def add(
        self, values: Mapping[str, str], where: str, *, is_dry_run: bool = False
    ) -> NodeSettings:
        """
        Adds a node.

        Args:
            values: its settings.
            where: who gave them, for the messages.
            is_dry_run: nothing is changed.

        Returns:
            its settings with what the host chose.

        Raises:
            InvalidError: the host does not allow it, or has a replica of the set.
            PystoreError: it cannot be kept, or cannot start.
            OSError: as that.
        """
        return await self._whole(self._add(values, where, is_dry_run=is_dry_run))

    async def remove(
        self,
        cluster: str,
        set_name: str,
        broker_id: int,
        *,
        is_forced: bool = False,
        deletes_store: bool = False,
        is_dry_run: bool = False,
    ) -> HostedNode:
        """
        Removes a node. A master hands over first.

        Args:
            cluster: of its set.
            set_name: its set.
            broker_id: in the set; 0: whichever it has.
            is_forced: also a master from which no other member takes over.
            deletes_store: the files of its store go, too.
            is_dry_run: nothing is changed.

        Returns:
            the node.

        Raises:
            InvalidError: there is no such node, or it is the only member.
            UnavailableError: no other member takes over now.
            PystoreError: the removal cannot be kept.
        """
        return await self._whole(
            self._remove(
                (cluster, set_name, broker_id),
                is_forced=is_forced,
                deletes_store=deletes_store,
                is_dry_run=is_dry_run,
            )
        )

    async def close(self) -> None:
        """
        Waits for the orders that are carried out.
        """
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _whole(self, work: Coroutine[Any, Any, _T]) -> _T:
        """
        Carries an order out to its end, also if nothing waits for it any more: the next
        one comes after it.
        """
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # The answer was given before the end.
            task.add_done_callback(self._ended)
            raise

    def _ended(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._say(f"an order to this host failed: {error}")

    async def _add(
        self, values: Mapping[str, str], where: str, *, is_dry_run: bool
    ) -> NodeSettings:
        async with self._order:
            taken = self._ports() + await asyncio.to_thread(_busy_ports, self._host)
            given = given_of(values, self._host, taken, where)
            settings = added_node(given, self._host, where)
            wanted = settings.config
            for one in self._of_set(wanted.cluster, wanted.broker_name):
                raise InvalidError(
                    f"this host has a replica of {wanted.broker_name} of "
                    f"{wanted.cluster}: its node {one.name} at "
                    f"{one.settings.config.address}"
                )
            self._runs.check(settings)
            if is_dry_run:
                return settings
            await asyncio.to_thread(self._files.put, settings.name, given)
            try:
                await self._runs.begin(settings)
            except BaseException:
                # Any error: it would not start after a restart, either.
                await asyncio.to_thread(self._files.take_back, settings.name)
                raise
            return settings

    async def _remove(
        self,
        which: tuple[str, str, int],
        *,
        is_forced: bool,
        deletes_store: bool,
        is_dry_run: bool,
    ) -> HostedNode:
        async with self._order:
            hosted = self._found(*which)
            others = None if is_forced else _others(hosted)
            if is_dry_run:
                return hosted
            if others is not None:
                await _hand_over(hosted, others)
            store = hosted.settings.config.store if deletes_store else None
            await asyncio.to_thread(self._files.remove, hosted.name, store)
            await self._runs.end(hosted.name)
            is_configured = hosted.name in self._configured
            await asyncio.to_thread(
                self._files.finish, hosted.name, is_configured=is_configured
            )
            return hosted

    def _of_set(self, cluster: str, set_name: str) -> list[HostedNode]:
        return [
            one
            for one in self._runs.nodes.values()
            if (one.settings.config.cluster, one.settings.config.broker_name)
            == (cluster, set_name)
        ]

    def _ports(self) -> list[int]:
        found = []
        for one in self._runs.nodes.values():
            config = one.settings.config
            found += [
                parse_address(each)[1] for each in (config.address, config.ha_address)
            ]
        return found

    def _found(self, cluster: str, set_name: str, broker_id: int) -> HostedNode:
        some = self._of_set(cluster, set_name)
        for one in some:
            if broker_id in (0, one.broker_id):
                return one
        if some:
            ids = ", ".join(str(one.broker_id or "none yet") for one in some)
            raise NoSuchReplica(
                f"this host has no broker {broker_id} of {set_name}: its id is {ids}"
            )
        raise NoSuchReplica(f"this host has no replica of {set_name} of {cluster}")


def _busy_ports(host: HostPortSettings) -> list[int]:
    """
    Returns those of its ports on which another program listens.
    """
    found = []
    first, last = host.ports or (1, 0)
    for port in range(first, last + 1):
        try:
            socket.create_server((host.host, port)).close()
        except OSError:
            # In use, or not ours.
            found.append(port)
    return found


def _others(hosted: HostedNode) -> list[int] | None:
    """
    Returns the other members, of which one may take over; ``None``: none has to.

    Raises:
        InvalidError: it is master, and the only member.
    """
    replica = hosted.node.replica
    if replica is None or hosted.failure:
        return None
    try:
        now = replica.standing()
    except PystoreError:
        # It closes: it is no master any more.
        return None
    if now.role is not Role.MASTER:
        return None
    others = sorted(ids_of(now.agreed.members) - {replica.me.broker_id})
    if not others:
        raise InvalidError(
            f"{hosted.name} is master, and no other broker of its set is in sync: add "
            "one, or force the removal, after which nothing serves the set"
        )
    return others


async def _hand_over(hosted: HostedNode, others: list[int]) -> None:
    problems = []
    for one in others:
        try:
            await hosted.node.hand_over(one, _HAND_OVER_MS // len(others))
        except PystoreError as error:
            # Another member may be well.
            problems.append(f"broker {one}: {error}")
        else:
            return
    raise UnavailableError(
        f"{hosted.name} is master, and hands over to no other broker "
        f"({'; '.join(problems)}): try again, or force the removal"
    )


def settings_file(path: str, host: HostPortSettings) -> Path:
    """
    Returns the place of a file of settings that a request names.

    Raises:
        InvalidError: it is not below the store root.
    """
    root = Path(os.path.realpath(host.store_root))
    place = Path(os.path.realpath(path))
    if root in place.parents:
        return place
    raise InvalidError(
        f"configPath={path}: this host reads such files below {root} only; or send the "
        "settings in the body"
    )
