"""
Files by which an executor reaches brokers: it reads them itself.
"""

from __future__ import annotations

import pickle
from contextlib import closing
from pathlib import Path

import pytest
from lib.certificates import Authority
from lib.spark.local_rounds import replicas_of

from pystore.errors import InvalidError, PystoreError
from pystore.net.tls import ServerTls, TlsConfig, TlsMode
from pystore.segments.peer_copy import PeerCopy
from pystore.segments.peer_server import SegmentServer
from pystore.spark.peers.access import BrokerAccess


def test_without_files_nothing_is_signed_and_bytes_are_plain() -> None:
    """
    As for brokers of a network that is closed.
    """
    access = BrokerAccess()
    assert (None, None) == (access.signs(), access.tls())


def test_a_certificate_that_the_brokers_know_reads_their_segments(
    tmp_path: Path,
) -> None:
    """
    After the names have travelled; without a certificate nothing is read.
    """
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    config = TlsConfig(
        TlsMode.ENFORCING, certificate, key, authority.path, needs_client=True
    )
    own = (str(authority.path), *map(str, authority.issue("client")))
    access = pickle.loads(pickle.dumps(BrokerAccess("", *own)))
    root = replicas_of(tmp_path, 1).replicas[1].root
    with SegmentServer(root, "127.0.0.1", tls=ServerTls(config)) as server:
        with closing(PeerCopy(server.address, access.tls())) as copy:
            assert copy.block(0, 0)
        with pytest.raises(PystoreError):
            PeerCopy(server.address, BrokerAccess("", own[0]).tls())


def test_credentials_that_others_may_read_are_refused(tmp_path: Path) -> None:
    """
    On each host that reads them.
    """
    path = tmp_path / "credentials"
    path.write_text("accessKey: operator\nsecretKey: 0123456789abcdef\n")
    path.chmod(0o600)
    assert BrokerAccess(str(path)).signs() is not None
    path.chmod(0o644)
    with pytest.raises(InvalidError):
        BrokerAccess(str(path)).signs()
