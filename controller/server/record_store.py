"""
The record store of a controller: LMDB for one host, ZooKeeper for several.

Source: docs/record-store.md.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from pystore.access.credentials import CredentialsFile
from pystore.controller.server.config import ControllerConfig
from pystore.errors import InvalidError
from pystore.net.tls import ClientTls
from pystore.records.lmdb_store import LmdbStore
from pystore.records.record_store import RecordStore

__all__ = ["record_store"]

_POLL_S = 0.05  # how often a waiting controller of the same host looks for the leader
_TIMEOUT_S = 3.0  # how long brokers wait for an answer


def record_store(settings: ControllerConfig) -> Callable[[], RecordStore]:
    """
    Returns a function that opens a session with the record store; it may block.

    Raises:
        InvalidError: no store or two stores are named, ZooKeeper's client is missing,
            or others may read the credentials, or files of TLS do not fit.
        OSError: a file cannot be read.
    """
    if bool(settings.store) == bool(settings.zookeeper):
        raise InvalidError(
            "give the record store: --store DIR for one host, or --zookeeper "
            "HOSTS for several"
        )
    if settings.store:
        return lambda: LmdbStore(
            settings.store, map_bytes=settings.store_map_bytes, poll_s=_POLL_S
        )
    try:
        from pystore.records.zookeeper_access import (  # noqa: PLC0415
            ZookeeperTls,
            ZookeeperUser,
        )
        from pystore.records.zookeeper_store import ZookeeperStore  # noqa: PLC0415
    except ImportError as error:
        # An extra, which a single host does not need.
        raise InvalidError(
            "ZooKeeper needs kazoo: pip install 'pystore-commitlog[zookeeper]'"
        ) from error
    user = tls = None
    if settings.zookeeper_credentials:
        own = CredentialsFile(Path(settings.zookeeper_credentials)).now()
        user = ZookeeperUser(own.access_key, own.secret_key, settings.zookeeper_sasl)
    if settings.zookeeper_sasl:
        _check_sasl(settings)
    if settings.zookeeper_tls:
        files = settings.tls
        if files.authorities is None:
            raise InvalidError(
                "zookeeperTls needs tlsAuthorities: the certificates that sign those "
                "of its servers"
            )
        # kazoo reads them in a thread, whose errors look like a server that is down.
        ClientTls(files)
        tls = ZookeeperTls(files.authorities, files.certificate, files.key)
    return lambda: ZookeeperStore(
        settings.zookeeper,
        root=settings.zookeeper_root,
        user=user,
        tls=tls,
        session_timeout_s=settings.zookeeper_session_timeout / 1000,
        timeout_s=_TIMEOUT_S,
    )


def _check_sasl(settings: ControllerConfig) -> None:
    if not settings.zookeeper_credentials:
        raise InvalidError("zookeeperSasl needs zookeeperCredentials: who it is")
    if find_spec("puresasl") is None:
        raise InvalidError(
            "SASL with ZooKeeper needs pure-sasl: pip install "
            "'pystore-commitlog[zookeeper]'"
        )
