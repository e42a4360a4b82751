"""
The watcher of a run with AutoRecovery: a thread reads the controller and the record
store again and again, and tells a recorder.
"""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from types import TracebackType

from pystore.autorecovery.controllers import LeadingControllers
from pystore.autorecovery.host_client import RemoteHosts
from pystore.autorecovery.replacement_requests import list_drains, list_replacements
from pystore.autorecovery.status_view import read_status
from pystore.clocks import wall_ms
from pystore.controller.client.client import ControllerClient
from pystore.controller.server.config import ControllerConfig
from pystore.controller.server.record_store import record_store
from pystore.demo.cluster_sight import ClusterSight
from pystore.demo.host_programs import HostedCluster
from pystore.demo.hosts_recorder import HostsRecorder
from pystore.errors import PystoreError
from pystore.records.record_store import RecordStore

__all__ = ["ClusterWatch"]

_LOOK_S = 0.3


class ClusterWatch:
    """
    A context manager: the thread runs in it. The controller runs already.

    Args:
        recorder: is told.
        cluster: is looked at.
    """

    def __init__(self, recorder: HostsRecorder, cluster: HostedCluster) -> None:
        self._recorder = recorder
        self._cluster = cluster
        self._numbers = {one.address: one.number for one in cluster.hosts.values()}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> ClusterWatch:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending.set()
        self._thread.join()

    def _watch(self) -> None:
        addresses = (self._cluster.controller.address,)
        settings = ControllerConfig().with_texts(
            {"store": os.fspath(self._cluster.records)}, is_running=False
        )
        with ExitStack() as stack:
            asked = LeadingControllers(lambda: ControllerClient(addresses, say=bool))
            stack.enter_context(asked)
            hosts = stack.enter_context(RemoteHosts(asked))
            while not (self._cluster.records / "data.mdb").is_file():
                # The controller makes it.
                if self._ending.wait(_LOOK_S):
                    return
            store = record_store(settings)()
            stack.callback(store.close)
            while not self._ending.wait(_LOOK_S):
                try:
                    sight = self._look(asked, hosts, store)
                except PystoreError:
                    # The controller was busy; the next look sees it.
                    continue
                self._recorder.seen(sight)

    def _look(
        self, asked: LeadingControllers, hosts: RemoteHosts, store: RecordStore
    ) -> ClusterSight:
        view = asked.all_sets()
        return ClusterSight(
            {name: one for (_, name), one in view.sets.items()},
            {
                self._numbers[one.name]: one
                for one in hosts.told_hosts().values()
                if one.name in self._numbers
            },
            list_replacements(store),
            list_drains(store),
            read_status(store, wall_ms()),
        )
