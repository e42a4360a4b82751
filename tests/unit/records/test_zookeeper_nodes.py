"""
The permanent nodes of a record store, on a real server.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from lib.remoting.zookeeper_server import ZookeeperServer

pytest.importorskip("kazoo", reason="needs the extra 'zookeeper'")
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_acl

from pystore.records.znodes import Znodes
from pystore.records.zookeeper_nodes import make_common, make_space

TIMEOUT_S = 10.0


@pytest.fixture
def client(zookeeper: ZookeeperServer) -> Iterator[KazooClient]:
    """
    A session.
    """
    made = KazooClient(zookeeper.hosts)
    made.start()
    yield made
    made.stop()
    made.close()


@pytest.fixture
def znodes() -> Znodes:
    """
    A root of this test.
    """
    return Znodes(uuid.uuid4().hex)


def test_the_common_nodes_are_made_once(client: KazooClient, znodes: Znodes) -> None:
    """
    A store that comes later finds them.
    """
    assert make_common(client, znodes, TIMEOUT_S)
    assert not make_common(client, znodes, TIMEOUT_S)

    assert all(client.exists(path) for path in znodes.common.all)
    assert not client.exists(znodes.spaces)


def test_a_space_is_made_once_with_all_its_nodes(
    client: KazooClient, znodes: Znodes
) -> None:
    """
    Again is fine, and so is another one beside it.
    """
    make_common(client, znodes, TIMEOUT_S)
    for space in ("recovery", "recovery", "other"):
        make_space(client, znodes, znodes.of_space(space), TIMEOUT_S)

        assert all(client.exists(path) for path in znodes.of_space(space).all)
    assert 2 == len(client.get_children(znodes.spaces))


def test_a_space_without_the_right_to_make_it_is_an_error(
    client: KazooClient, znodes: Znodes
) -> None:
    """
    And no race with another store.
    """
    make_common(client, znodes, TIMEOUT_S)
    client.set_acls(znodes.root, [make_acl("world", "anyone", read=True)])

    with pytest.raises(NoAuthError):
        make_space(client, znodes, znodes.of_space("recovery"), TIMEOUT_S)
