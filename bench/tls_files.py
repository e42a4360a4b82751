"""
Certificates for benches over TLS, which their processes find by an environment
variable.
"""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

from pystore.access.certificates import CertificateAuthority
from pystore.net.tls import ClientTls, ServerTls, TlsConfig, TlsMode

__all__ = ["VARIABLE", "client_tls", "make_files", "server_tls"]

VARIABLE = "PYSTORE_BENCH_TLS"
"""Names their folder; unset: plain bytes."""


def make_files(folder: Path) -> None:
    """
    Makes a certificate of 127.0.0.1, and its authority.
    """
    authority = CertificateAuthority("bench", 2, dt.datetime.now(dt.UTC))
    pair = authority.issue("127.0.0.1")
    folder.mkdir()
    (folder / "ca.pem").write_bytes(authority.pair.certificate)
    (folder / "certificate.pem").write_bytes(pair.certificate)
    (folder / "key.pem").write_bytes(pair.key)


def _config() -> TlsConfig | None:
    folder = os.environ.get(VARIABLE)
    if not folder:
        return None
    place = Path(folder)
    return TlsConfig(
        TlsMode.ENFORCING,
        place / "certificate.pem",
        place / "key.pem",
        place / "ca.pem",
    )


def server_tls() -> ServerTls | None:
    """
    Returns the TLS of a port of this process.
    """
    config = _config()
    return None if config is None else ServerTls(config)


def client_tls() -> ClientTls | None:
    """
    Returns the TLS of connections of this process.
    """
    config = _config()
    return None if config is None else ClientTls(config)
