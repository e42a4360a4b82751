"""
The certificates of a cluster, read by the standard library.
"""

from __future__ import annotations

import datetime as dt
import ssl
from pathlib import Path

from pystore.access.certificates import CertificateAuthority, PemPair

NOW = dt.datetime.now(dt.UTC)


def written(folder: Path, name: str, pair: PemPair) -> tuple[Path, Path]:
    """
    The two files of a pair.
    """
    paths = folder / f"{name}.pem", folder / f"{name}.key"
    for path, content in zip(paths, pair, strict=True):
        path.write_bytes(content)
    return paths


def handshake(
    server: tuple[Path, Path], client: tuple[Path, Path], authority: Path, host: str
) -> str:
    """
    Both sides verify each other, in memory; returns the version.
    """
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(*server)
    ours.load_verify_locations(authority)
    ours.verify_mode = ssl.CERT_REQUIRED
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    theirs.load_cert_chain(*client)
    theirs.load_verify_locations(authority)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        theirs.wrap_bio(to_client, to_server, server_hostname=host),
        ours.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for one in ends:
            try:
                one.do_handshake()
            except ssl.SSLWantReadError:
                # The other end has its turn.
                continue
    return ends[1].version() or ""


def test_hosts_of_one_cluster_trust_each_other(tmp_path: Path) -> None:
    """
    Each is server and client.
    """
    authority = CertificateAuthority("c", 2, NOW)
    ca, _ = written(tmp_path, "ca", authority.pair)
    one = written(tmp_path, "one", authority.issue("h.example"))
    two = written(tmp_path, "two", authority.issue("10.0.0.1"))
    assert "TLSv1.3" == handshake(one, two, ca, "h.example")
    assert "TLSv1.3" == handshake(two, one, ca, "10.0.0.1")


def test_a_certificate_signs_no_other(tmp_path: Path) -> None:
    """
    And ends with its days.
    """
    authority = CertificateAuthority("c" * 200, 2, NOW)
    path, _ = written(tmp_path, "one", authority.issue("h"))
    found = ssl._ssl._test_decode_cert(str(path))  # type: ignore[attr-defined]
    end = dt.datetime.strptime(found["notAfter"], "%b %d %H:%M:%S %Y %Z")
    assert abs(end.replace(tzinfo=dt.UTC) - NOW - dt.timedelta(days=2)).seconds < 2
