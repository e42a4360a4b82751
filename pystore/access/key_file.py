"""
The key file of a cluster: it seals the secrets of users in the record store.

A signature is verified with the secret itself, so a controller cannot store a hash of
it. It stores it encrypted: AES-256 in GCM, with a random nonce of 96 bits; the purpose
is authenticated, so no record can be put in the place of another. The file has one key
a line, in Base64: the first one seals, each of them opens, so that a key can be
replaced.

Source: NIST SP 800-38D; docs/security.md, *The key file*.
"""

from __future__ import annotations

import hmac
import os
import stat
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pystore.errors import FormatError, InvalidError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["KeyFile", "check_private", "new_key"]

_KEY_BYTES = 32
_NONCE_BYTES = 12
_TAG_BYTES = 16
_FORM = b"\x01"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def new_key(random_bytes: Callable[[int], bytes] = os.urandom) -> str:
    """
    Returns a line for a key file.
    """
    return b64encode(random_bytes(_KEY_BYTES)).decode()


def check_private(path: Path) -> None:
    """
    Refuses a file with secrets that others may read or change.

    Raises:
        InvalidError: the permissions are too wide.
        OSError: the file cannot be read.
    """
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & _OTHERS:
        raise InvalidError(
            f"{path} has the mode {mode:04o}: others may use its secrets; "
            f"chmod 600 {path}"
        )


class KeyFile:
    """
    The keys of one file. Any thread.

    Args:
        keys: in the order of the file.

    Raises:
        InvalidError: there is no key, or cryptography is missing.
    """

    def __init__(self, keys: list[bytes]) -> None:
        if not keys:
            raise InvalidError("a key file has at least one key")
        self._keys = keys
        self._ciphers = list(map(_cipher, keys))

    @staticmethod
    def read(path: Path) -> KeyFile:
        """
        Returns the keys of a file.

        Raises:
            InvalidError: others may read it, a line is no key, or cryptography is
                missing.
            OSError: it cannot be read.
        """
        check_private(path)
        keys = []
        for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
            if line.strip() and not line.startswith("#"):
                keys.append(_key(line.strip(), f"{path}: line {number}"))
        if not keys:
            raise InvalidError(f"{path} has no key")
        return KeyFile(keys)

    def secrets(self, purpose: str) -> list[str]:
        """
        Returns a secret for a purpose, of each key: all who have the key file have it.
        """
        return [
            b64encode(hmac.digest(key, purpose.encode(), "sha256")).decode()
            for key in self._keys
        ]

    def seal(
        self,
        content: bytes,
        purpose: str,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> bytes:
        """
        Returns content that only this key file opens, and for this purpose only.
        """
        nonce = random_bytes(_NONCE_BYTES)
        sealed = self._ciphers[0].encrypt(nonce, content, purpose.encode())
        return _FORM + nonce + sealed

    def open(self, sealed: bytes, purpose: str) -> bytes:
        """
        Returns what was sealed for this purpose.

        Raises:
            FormatError: no key of the file opens it: it was sealed with another key or
                for another purpose, or is damaged.
        """
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415

        begin = len(_FORM) + _NONCE_BYTES
        nonce = sealed[len(_FORM) : begin]
        if sealed[: len(_FORM)] != _FORM or len(sealed) < begin + _TAG_BYTES:
            raise FormatError("it is no sealed content")
        for cipher in self._ciphers:
            try:
                return cipher.decrypt(nonce, sealed[begin:], purpose.encode())
            except InvalidTag:
                # Perhaps sealed with the next key.
                continue
        raise FormatError("it was sealed with another key, or is damaged")


def _key(text: str, where: str) -> bytes:
    try:
        key = b64decode(text, validate=True)
    except Base64Error as error:
        # The line itself is a secret.
        raise InvalidError(f"{where} is no Base64") from error
    if len(key) != _KEY_BYTES:
        raise InvalidError(f"{where} has {len(key)} bytes: a key has {_KEY_BYTES}")
    return key


def _cipher(key: bytes) -> AESGCM:
    try:
        from cryptography.hazmat.primitives.ciphers import aead  # noqa: PLC0415
    except ImportError as error:
        # An extra, which a cluster without users does not need.
        raise InvalidError(
            "a key file needs cryptography: pip install 'pystore-commitlog[security]'"
        ) from error
    return aead.AESGCM(key)
