"""
Files of TLS that do not fit are named before a port is opened.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.certificates import Authority

from pystore.errors import InvalidError
from pystore.net.tls import ClientTls, ServerTls, TlsConfig, TlsMode


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"certificate": Path("a")}, "belong together"),
        ({"key": Path("a")}, "belong together"),
        ({"mode": TlsMode.PERMISSIVE}, "TLS is permissive: give certificate and key"),
        ({"needs_client": True}, "give the authorities"),
    ],
)
def test_files_that_are_missing_are_named(
    options: dict[str, object], reason: str
) -> None:
    """
    By what they are for.
    """
    with pytest.raises(InvalidError, match=reason):
        TlsConfig(**options)  # type: ignore[arg-type]


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    """
    And what is no PEM; the line names the files.
    """
    authority = Authority(tmp_path)
    certificate, key = authority.issue("one")
    _, other = authority.issue("two")
    rubbish = tmp_path / "rubbish"
    rubbish.write_text("no certificate")
    for config in (
        TlsConfig(TlsMode.ENFORCING, certificate, other),
        TlsConfig(TlsMode.ENFORCING, rubbish, key),
        TlsConfig(TlsMode.ENFORCING, certificate, key, rubbish),
    ):
        with pytest.raises(InvalidError, match="fit each other") as raised:
            ServerTls(config)
        assert str(tmp_path) in str(raised.value)
    with pytest.raises(InvalidError, match="fit each other"):
        ClientTls(TlsConfig(authorities=rubbish))
