"""
The credentials of a process.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pystore.access.credentials import (
    CredentialsFile,
    credentials_of_json,
    credentials_text,
)
from pystore.errors import InvalidError
from pystore.remoting.signature import Credentials

USER = Credentials("alice", "secret: with = signs")


def written(path: Path, text: str) -> Path:
    """
    A new file that its owner alone can read, in the place of another.
    """
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(0o600)
    os.replace(new, path)
    return path


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    """
    Its form is that of RocketMQ's tools.yml.
    """
    path = written(tmp_path / "alice.yml", credentials_text(USER))
    assert USER == CredentialsFile(path).now()
    tools = written(
        tmp_path / "tools.yml", "accessKey: rocketmq2\nsecretKey: 12345678\n"
    )
    assert Credentials("rocketmq2", "12345678") == CredentialsFile(tools).now()


def test_another_secret_is_used_without_a_restart(tmp_path: Path) -> None:
    """
    As soon as the file is replaced.
    """
    path = written(tmp_path / "u.yml", credentials_text(USER))
    own = CredentialsFile(path)
    assert USER == own.now()
    other = Credentials("alice", "the next secret")
    written(path, credentials_text(other))
    assert other == own.now()


@pytest.mark.parametrize(
    "text", ["", "accessKey: alice\n", "accessKey: alice\nsecretKey:"]
)
def test_a_half_written_file_changes_nothing_and_is_said_once(
    tmp_path: Path, text: str
) -> None:
    """
    The line has no secret; a whole file ends it.
    """
    said: list[str] = []
    path = written(tmp_path / "u.yml", credentials_text(USER))
    own = CredentialsFile(path, said.append)
    written(path, text)
    for _ in range(3):
        assert USER == own.now()
    (line,) = said
    assert "the former credentials stay in use" in line
    assert USER.secret_key not in line
    path.unlink()
    assert USER == own.now()
    other = Credentials("alice", "the next secret")
    written(path, credentials_text(other))
    assert other == own.now()


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    """
    At the start.
    """
    path = written(tmp_path / "u.yml", credentials_text(USER))
    path.chmod(0o644)
    with pytest.raises(InvalidError, match="chmod 600"):
        CredentialsFile(path)


def test_the_setting_of_rocketmqs_brokers_is_read() -> None:
    """
    Its name is innerClientAuthenticationCredentials.
    """
    text = '{"accessKey":"rocketmq","secretKey":"12345678"}'
    assert Credentials("rocketmq", "12345678") == credentials_of_json(text, "f")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "secret",
        "[]",
        '"secret"',
        "{}",
        '{"accessKey":"a","secretKey":""}',
        json.dumps({"accessKey": "a", "secretKey": 5}),
    ],
)
def test_another_form_is_refused_and_not_shown(text: str) -> None:
    """
    The value is a secret.
    """
    with pytest.raises(InvalidError, match=r"expected .*accessKey") as raised:
        credentials_of_json(text, "broker.conf")
    assert not text or f": {text}" not in str(raised.value)
    assert raised.value.__cause__ is None
