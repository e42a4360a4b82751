"""
Where a process has its own credentials: a file, which is read again when it changes, or
the setting of RocketMQ's brokers.

Source: docs/security.md, *Credentials*.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from pystore.access.key_file import check_private
from pystore.errors import InvalidError
from pystore.remoting.signature import Credentials
from pystore.rocketmq.properties_file import parse_properties_text

__all__ = ["CredentialsFile", "credentials_of_json", "credentials_text"]


def credentials_text(user: Credentials) -> str:
    """
    Returns the content of a file: RocketMQ's ``tools.yml`` has the same form.
    """
    return f"accessKey: {user.access_key}\nsecretKey: {user.secret_key}\n"


def credentials_of_json(text: str, where: str) -> Credentials:
    """
    Returns the credentials of ``innerClientAuthenticationCredentials``.

    Args:
        text: the value.
        where: the file, for the message.

    Raises:
        InvalidError: it is not the form of RocketMQ.
    """
    try:
        found = json.loads(text)
        access_key, secret_key = found["accessKey"], found["secretKey"]
        if not (isinstance(access_key, str) and isinstance(secret_key, str)):
            raise InvalidError("both are texts")
        return Credentials(access_key, secret_key)
    except (InvalidError, KeyError, TypeError, ValueError):
        # The text is a secret: it is in no message, nor in the cause.
        raise InvalidError(
            f"{where}: innerClientAuthenticationCredentials: expected "
            '{"accessKey":"...","secretKey":"..."}'
        ) from None


def _read(path: Path) -> Credentials:
    check_private(path)
    found = parse_properties_text(path.read_text("utf-8"), str(path))
    try:
        return Credentials(found["accessKey"], found["secretKey"])
    except (InvalidError, KeyError):
        # A half written file, or another one. Its content is in no message.
        raise InvalidError(
            f"{path} is no file of credentials: expected the lines accessKey: NAME and "
            "secretKey: SECRET"
        ) from None


class CredentialsFile:
    """
    The credentials of a file. One thread.

    Args:
        path: of the file.
        say: receives one line for people if the file cannot be read again.

    Raises:
        InvalidError: others may read it, or it has another form.
        OSError: it cannot be read.
    """

    def __init__(self, path: Path, say: Callable[[str], object] = bool) -> None:
        self._path = path
        self._say = say
        self._seen = _mark(path)
        self._now = _read(path)
        self._said = ""

    def now(self) -> Credentials:
        """
        Returns the credentials. Those of the last readable content, if the file is
        missing or half written.
        """
        try:
            seen = _mark(self._path)
            if seen != self._seen:
                self._now = _read(self._path)
                self._seen, self._said = seen, ""
        except (InvalidError, OSError, UnicodeDecodeError) as error:
            # The file is being replaced: the former credentials go on.
            line = f"the former credentials stay in use: {error}"
            if line != self._said:
                self._said = line
                self._say(line)
        return self._now


def _mark(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size
