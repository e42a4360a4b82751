"""
Each run of the demo has a node of its own in ZooKeeper, and removes it.
"""

from __future__ import annotations

import sys
from contextlib import suppress

import pytest
from lib.free_ports import free_port
from lib.remoting.zookeeper_server import ZookeeperServer

from pystore.demo import zookeeper_root as module
from pystore.demo.zookeeper_root import zookeeper_root
from pystore.errors import UnavailableError


def test_without_servers_there_is_no_node() -> None:
    """
    The records are elsewhere.
    """
    with zookeeper_root("") as root:
        assert "" == root


def test_the_node_is_removed_with_all_below_it(zookeeper: ZookeeperServer) -> None:
    """
    Also after an error; two runs at the same time have two.
    """
    from kazoo.client import KazooClient  # noqa: PLC0415

    client = KazooClient(zookeeper.hosts)
    client.start()
    try:
        with zookeeper_root(zookeeper.hosts) as other:
            with suppress(KeyError), zookeeper_root(zookeeper.hosts) as root:
                assert root != other
                client.create(f"{root}/a/b", makepath=True)
                raise KeyError
            assert client.exists(root) is None
    finally:
        client.stop()
        client.close()


def test_a_server_that_does_not_answer_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Before any process is started.
    """
    pytest.importorskip("kazoo")
    monkeypatch.setattr(module, "_START_S", 0.1)
    hosts = f"127.0.0.1:{free_port(1)}"
    with (
        pytest.raises(UnavailableError, match=f"no ZooKeeper answers at {hosts}"),
        zookeeper_root(hosts),
    ):
        pass


def test_without_kazoo_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    It is an extra of the distribution.
    """
    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    with (
        pytest.raises(UnavailableError, match=r"pystore-commitlog\[zookeeper\]"),
        zookeeper_root("127.0.0.1:1"),
    ):
        pass
