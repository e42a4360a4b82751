"""
What a process does for AutoRecovery, made of its parts: a candidate for the Auditor, a
worker, and their connections.

Source: docs/autorecovery.md, *The Auditor*, *The worker*.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pystore.autorecovery.auditor_thread import AuditorThread
from pystore.autorecovery.controllers import LeadingControllers
from pystore.autorecovery.host_client import RemoteHosts
from pystore.autorecovery.loss_replacement import HostReplacements
from pystore.autorecovery.peer_client import RemotePeers
from pystore.autorecovery.replacement import Replacements
from pystore.autorecovery.set_orders import ControllerOrders
from pystore.autorecovery.worker_threads import WorkerThreads
from pystore.clocks import wall_ms
from pystore.controller.client.client import ControllerClient
from pystore.net.tls import ClientTls
from pystore.records.record_store import RecordStore
from pystore.remoting.admission import Signs
from pystore.remoting.connection import Connection

__all__ = ["RecoveryWork", "process_name", "recovery_works", "run_works"]

RecoveryWork = AuditorThread | WorkerThreads


def process_name() -> str:
    """
    Returns the name of this process in the records: ``HOST:PID``.
    """
    return f"{os.uname().nodename}:{os.getpid()}"


@contextmanager
def recovery_works(
    open_store: Callable[[], RecordStore],
    controllers: Sequence[str],
    *,
    signs: Signs[Connection] | None,
    tls: ClientTls | None,
    say: Callable[[str], object],
    slots: int | None,
    is_candidate: bool,
) -> Iterator[list[RecoveryWork]]:
    """
    Makes the candidate and the worker of this process; `run_works` runs them. The
    connections close at the end.

    Args:
        open_store: returns a new session with the record store.
        controllers: ``HOST:PORT`` of each.
        signs: signs requests; ``None``: nothing is signed.
        tls: of connections; ``None``: plain bytes.
        say: receives one line for the operator.
        slots: segments that are repaired at once; ``None``: as the settings say; 0: no
            worker.
        is_candidate: it may become the Auditor.
    """
    name = process_name()
    with (
        LeadingControllers(
            lambda: ControllerClient(controllers, say=say, signs=signs, tls=tls)
        ) as asked,
        RemotePeers(signs=signs, tls=tls, say=say) as peers,
        RemoteHosts(asked, signs=signs, tls=tls, say=say) as hosts,
    ):
        works: list[RecoveryWork] = []
        if is_candidate:
            works.append(
                AuditorThread(
                    open_store,
                    name,
                    controllers=asked,
                    peers=peers,
                    say=say,
                    replacements=_replacements(asked, hosts, say),
                )
            )
        if slots != 0:
            works.append(
                WorkerThreads(
                    open_store,
                    name,
                    controllers=lambda: asked,
                    peers=peers,
                    say=say,
                    slots=slots,
                )
            )
        yield works


async def run_works(works: Sequence[RecoveryWork]) -> None:
    """
    Runs them until it is cancelled, and waits for their end.
    """
    for one in works:
        one.start()
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        await asyncio.gather(*(asyncio.to_thread(one.stop) for one in works))


def _replacements(
    asked: LeadingControllers, hosts: RemoteHosts, say: Callable[[str], object]
) -> Callable[[RecordStore], HostReplacements]:
    """
    Returns what makes replacements on hosts, for a session of the Auditor.
    """
    orders = ControllerOrders(asked.call, hosts.remoting)
    return lambda store: HostReplacements(
        Replacements(store, asked, hosts, orders, clock_ms=wall_ms, say=say), wall_ms
    )
