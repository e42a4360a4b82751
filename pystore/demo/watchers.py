"""
The watchers of a replicated run: a thread for each broker and one for the controllers
ask again and again, and tell a recorder.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from pystore.broker.control_client import ControlClient
from pystore.demo.recorder import Recorder
from pystore.demo.secured_set import OpenSet
from pystore.errors import PystoreError
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.controller_headers import GetMetadataResponse
from pystore.remoting.fields import decode_fields

__all__ = ["Watchers"]

_BROKER_S = 0.02
_CONTROLLER_S = 0.1
_ANSWER_MS = 500
_STATUS_S = 10.0


class Watchers:
    """
    A context manager: the threads run in it.

    Args:
        recorder: is told.
        sockets: the control socket of each broker.
        controllers: name -> address.
        access: makes the client of the controllers.
    """

    def __init__(
        self,
        recorder: Recorder,
        sockets: Mapping[int, Path],
        controllers: Mapping[str, str],
        access: OpenSet,
    ) -> None:
        self._access = access
        self._recorder = recorder
        self._controllers = controllers
        self._ending = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch_broker, args=one, daemon=True)
            for one in sockets.items()
        ]
        self._threads.append(threading.Thread(target=self._watch_all, daemon=True))

    def __enter__(self) -> Watchers:
        for one in self._threads:
            one.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending.set()
        for one in self._threads:
            one.join()

    def _watch_broker(self, broker: int, socket: Path) -> None:
        while not self._ending.is_set():
            try:
                with ControlClient(socket, timeout_s=_STATUS_S) as client:
                    while not self._ending.wait(_BROKER_S):
                        self._recorder.seen(broker, client.status()[0])
            except PystoreError:
                # It starts, was killed, or closes.
                self._recorder.lost(broker)
            self._ending.wait(_BROKER_S)

    def _watch_all(self) -> None:
        asyncio.run(self._watch_controllers())

    async def _watch_controllers(self) -> None:
        names = {address: name for name, address in self._controllers.items()}
        async with self._access.client() as client:
            while not self._ending.is_set():
                found = [await _is_leader(client, address) for address in names]
                leader = next(
                    (one for one, leads in zip(names, found, strict=True) if leads), ""
                )
                self._recorder.leads(leader, names.get(leader, ""))
                await asyncio.sleep(_CONTROLLER_S)


async def _is_leader(client: RemotingClient, address: str) -> bool:
    request = RemotingCommand(RequestCode.CONTROLLER_GET_METADATA_INFO)
    try:
        answer = await client.call(address, request, _ANSWER_MS)
        return decode_fields(GetMetadataResponse, answer.ext_fields).is_leader
    except PystoreError:
        # It starts, or was killed.
        return False
