"""
How a node proves who it is, from its file.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.certificates import Authority

from pystore.access.credentials import credentials_text
from pystore.broker.settings import host_of_properties, host_of_toml
from pystore.errors import InvalidError
from pystore.net.tls import TlsMode
from pystore.remoting.signature import Credentials

ONE = """
brokerName = "b"
address = "127.0.0.1:10911"
store = "/data/b"
controllerAddr = ["127.0.0.1:9878"]
"""
USER = Credentials("brokers", "a secret")


def test_without_settings_nothing_is_signed_and_bytes_are_plain() -> None:
    """
    As before there were users.
    """
    (one,) = host_of_toml(ONE, "f").nodes
    config = one.access.applied(one.config, bool)
    assert (None, None, None) == (config.signs, config.client_tls, config.server_tls)


def test_credentials_are_in_a_file_or_in_the_setting_of_rocketmq(
    tmp_path: Path,
) -> None:
    """
    One of both.
    """
    file = tmp_path / "own.yml"
    file.write_text(credentials_text(USER))
    file.chmod(0o600)
    (one,) = host_of_toml(f'{ONE}credentialsFile = "{file}"', "f").nodes
    assert file == one.access.credentials
    assert one.access.applied(one.config, bool).signs is not None
    theirs = '{"accessKey":"brokers","secretKey":"a secret"}'
    values = {
        "brokerName": "b",
        "brokerId": "-1",
        "controllerAddr": "h:9878",
        "storePathRootDir": "/data/b",
        "innerClientAuthenticationCredentials": theirs,
    }
    (one,) = host_of_properties(values, "f").nodes
    assert USER == one.access.credentials
    with pytest.raises(InvalidError, match="both name credentials") as raised:
        host_of_properties(values | {"credentialsFile": str(file)}, "f")
    assert "a secret" not in str(raised.value)


def test_credentials_that_others_may_read_end_the_start(tmp_path: Path) -> None:
    """
    With what to do.
    """
    file = tmp_path / "own.yml"
    file.write_text(credentials_text(USER))
    (one,) = host_of_toml(f'{ONE}credentialsFile = "{file}"', "f").nodes
    with pytest.raises(InvalidError, match="chmod 600"):
        one.access.applied(one.config, bool)


def test_a_port_and_the_connections_of_a_node_speak_tls(tmp_path: Path) -> None:
    """
    As its file says.
    """
    authority = Authority(tmp_path)
    certificate, key = authority.issue("node")
    lines = (
        f'tlsMode = "permissive"\ntlsCertificate = "{certificate}"\n'
        f'tlsKey = "{key}"\ntlsAuthorities = "{authority.path}"\ntlsClient = true\n'
    )
    (one,) = host_of_toml(ONE + lines, "f").nodes
    config = one.access.applied(one.config, bool)
    assert config.server_tls is not None
    assert TlsMode.PERMISSIVE is config.server_tls.mode
    assert config.client_tls is not None


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ('haUnproven = "here"', "f: haUnproven: 'here' does not appear"),
        ('tlsMode = "on"', "f: tlsMode=on: expected disabled, permissive, enforcing"),
        ('tlsMode = "enforcing"', "f: TLS is enforcing: give certificate and key"),
        ('tlsClient = "perhaps"', "f: tlsClient=perhaps: expected true or false"),
    ],
)
def test_a_setting_that_is_none_is_named(lines: str, reason: str) -> None:
    """
    With its file.
    """
    with pytest.raises(InvalidError, match=reason):
        host_of_toml(ONE + lines, "f")
