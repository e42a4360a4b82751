"""
Certificates that end soon are told in advance.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from lib.certificates import Authority

from pystore.access.certificate_watch import CertificateWatch


@pytest.mark.parametrize(
    ("days", "expected"),
    [(31.5, []), (29.5, ["in 29 days"]), (0.5, ["in 0 days"]), (-1, ["peers refuse"])],
)
def test_the_last_thirty_days_are_told(
    tmp_path: Path, days: float, expected: list[str]
) -> None:
    """Once a day; a replaced certificate ends that."""
    certificate, _ = Authority(tmp_path).issue("server", days=days)
    said: list[str] = []
    now = dt.datetime.now(dt.UTC)
    watch = CertificateWatch(certificate, said.append, lambda: now)
    for _ in range(12):
        watch.look()
        now += dt.timedelta(hours=1)
    assert len(said) == len(expected)
    assert all(part in line for part, line in zip(expected, said, strict=True))
    now += dt.timedelta(hours=12)
    watch.look()
    assert len(said) == 2 * len(expected)


def test_what_is_no_certificate_is_left_to_tls(tmp_path: Path) -> None:
    """It refuses the file with a reason of its own."""
    said: list[str] = []
    path = tmp_path / "certificate.pem"
    CertificateWatch(path, said.append).look()
    path.write_text("nothing")
    CertificateWatch(path, said.append).look()
    CertificateWatch(None, said.append).look()
    assert said == []
