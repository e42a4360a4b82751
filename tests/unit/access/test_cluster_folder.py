"""
The files of a new cluster on disk.
"""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from pystore.access.cluster_folder import write_cluster

FILES = {
    "ca.pem": b"public",
    "cluster.key": b"secret",
    "broker-1/certificate.pem": b"public",
    "broker-1/certificate.key": b"secret",
    "rocketmq/tls.properties": b"public",
    "rocketmq/tools.yml": b"secret",
}


def test_secrets_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    """Certificates are public; the folders are not."""
    folder = tmp_path / "secure"
    write_cluster(folder, FILES)
    for place, content in FILES.items():
        path = folder / place
        assert path.read_bytes() == content
        expected = 0o644 if content == b"public" else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == expected
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_nothing_is_written_over(tmp_path: Path) -> None:
    """The folder is new."""
    with pytest.raises(FileExistsError):
        write_cluster(tmp_path, FILES)
