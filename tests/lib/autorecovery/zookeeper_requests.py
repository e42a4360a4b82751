"""
A record store in ZooKeeper that counts its requests.
"""

from __future__ import annotations

from typing import Any

from pystore.records.zookeeper_store import ZookeeperStore

__all__ = ["CountedStore"]


class CountedStore(ZookeeperStore):
    """
    Counts what its client sends: kazoo has one place for all requests; a transaction is
    one.

    Attributes:
        requests: sent since it was opened.
    """

    def __init__(self, hosts: str, *, root: str) -> None:
        super().__init__(hosts, root=root)
        self.requests = 0
        send = self._client._call

        def counted(request: Any, answer: Any) -> Any:
            self.requests += 1
            return send(request, answer)

        self._client._call = counted
