"""
A record store in ZooKeeper that one user owns, on a real server.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Iterator

import pytest
from lib.remoting.record_stores import put
from lib.remoting.zookeeper_server import ZookeeperServer

from pystore.errors import StorageError, UnavailableError

pytest.importorskip("kazoo", reason="needs the extra 'zookeeper'")
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_digest_acl

from pystore.records.zookeeper_access import ZookeeperUser
from pystore.records.zookeeper_store import ZookeeperStore

USER = ZookeeperUser("pystore", "a secret")


@pytest.fixture
def root() -> str:
    """
    A node of this test.
    """
    return f"/{uuid.uuid4().hex}"


@pytest.fixture
def stranger(zookeeper: ZookeeperServer) -> Iterator[KazooClient]:
    """
    A session without a user.
    """
    client = KazooClient(zookeeper.hosts)
    client.start()
    yield client
    client.stop()
    client.close()


def tree(client: KazooClient, path: str) -> Iterator[str]:
    """
    The paths below one, itself included, as their owner lists them.
    """
    yield path
    for name in client.get_children(path):
        yield from tree(client, f"{path}/{name}")


def assert_closed(stranger: KazooClient, hosts: str, root: str) -> None:
    """
    A stranger can do nothing to any node but know that it is there.
    """
    owner = KazooClient(hosts, **USER.options)
    owner.start()
    try:
        paths = list(tree(owner, root))
    finally:
        owner.stop()
        owner.close()
    assert len(paths) > 256
    for path in paths:
        for answer in (
            stranger.get_async(path),
            stranger.set_async(path, b"x"),
            stranger.create_async(f"{path}/x", b""),
            stranger.get_children_async(path),
        ):
            with pytest.raises(NoAuthError):
                answer.get(timeout=10)


def test_all_nodes_are_for_their_user_only(
    zookeeper: ZookeeperServer, stranger: KazooClient, root: str
) -> None:
    """
    And the user works with them as without one.
    """
    store = ZookeeperStore(zookeeper.hosts, root=root, user=USER)
    other = ZookeeperStore(zookeeper.hosts, root=root, user=USER)
    try:
        put(store, "a", b"1")
        found = other.get("a")
        assert found is not None
        assert b"1" == found.value
        assert_closed(stranger, zookeeper.hosts, root)
        with pytest.raises(UnavailableError, match="is not for all: see zookeeperCred"):
            ZookeeperStore(zookeeper.hosts, root=root)
        wrong = ZookeeperUser("pystore", "another secret")
        with pytest.raises(UnavailableError, match="is not for user pystore") as raised:
            ZookeeperStore(zookeeper.hosts, root=root, user=wrong)
        assert "NoAuth" in str(raised.value)
        assert "another secret" not in str(raised.value)
    finally:
        store.close()
        other.close()


def test_open_nodes_are_given_to_the_user(
    zookeeper: ZookeeperServer, stranger: KazooClient, root: str
) -> None:
    """
    At the first opening with a user; records stay, and an open session is refused.
    """
    before = ZookeeperStore(zookeeper.hosts, root=root)
    for number in range(50):
        put(before, f"key {number}", b"1")
    after = ZookeeperStore(zookeeper.hosts, root=root, user=USER)
    try:
        assert 50 == len(after.scan())
        with pytest.raises(StorageError):
            put(before, "key 1", b"2")
        put(after, "key 1", b"3")
    finally:
        before.close()
        after.close()
    assert_closed(stranger, zookeeper.hosts, root)


def test_spaces_are_given_to_the_user_too(
    zookeeper: ZookeeperServer, stranger: KazooClient, root: str
) -> None:
    """
    Also where a program from before there were spaces has given all but them.
    """
    before = ZookeeperStore(zookeeper.hosts, root=root)
    try:
        put(before, "recovery/a", b"1")
        before._client.set_acls(before._znodes.common.generation, USER.acl)
    finally:
        before.close()
    after = ZookeeperStore(zookeeper.hosts, root=root, user=USER)
    try:
        assert ["recovery/a"] == [one.key for one in after.scan()]
        put(after, "other/b", b"2")
        assert_closed(stranger, zookeeper.hosts, root)
    finally:
        after.close()


def test_a_path_behind_the_servers_is_made_if_it_is_missing(
    zookeeper: ZookeeperServer, stranger: KazooClient, root: str
) -> None:
    """
    Without a warning of the client; it is the same place as with the root.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store = ZookeeperStore(f"{zookeeper.hosts}{root}/deep", root="/pystore")
    try:
        put(store, "a", b"1")
        assert stranger.exists(f"{root}/deep/pystore/generation")
    finally:
        store.close()
    again = ZookeeperStore(zookeeper.hosts, root=f"{root}/deep/pystore")
    try:
        assert again.get("a") is not None
    finally:
        again.close()


def test_a_root_of_another_user_is_named_as_such(
    zookeeper: ZookeeperServer, stranger: KazooClient, root: str
) -> None:
    """
    ZooKeeper answered, so it is not said that it does not.
    """
    owned = [make_digest_acl("someone", "else", all=True)]
    stranger.create(root, b"", acl=owned)
    with pytest.raises(UnavailableError) as raised:
        ZookeeperStore(f"{zookeeper.hosts}{root}", root="/pystore")
    assert "ZooKeeper refuses (NoAuthError)" in str(raised.value)
    assert "does not answer" not in str(raised.value)
