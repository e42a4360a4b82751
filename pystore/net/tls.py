"""
TLS of servers and clients: contexts of the standard library from files that may be
replaced while a process runs.

TLS 1.2 and newer; the names of servers are checked; a client shows a certificate if it
has one. A half replaced pair of files is not taken: the former one goes on until both
fit.

Source: RFC 8446; docs/security.md, *TLS*.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from pystore.errors import InvalidError

__all__ = ["ClientTls", "ServerTls", "TlsConfig", "TlsMode", "tls_config"]


class TlsMode(Enum):
    """
    Whether a port speaks TLS; the names are RocketMQ's.
    """

    DISABLED = "disabled"
    """Plain bytes only."""

    PERMISSIVE = "permissive"
    """Either; the first byte tells."""

    ENFORCING = "enforcing"
    """TLS only."""


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """
    The files of one process, in PEM.

    Attributes:
        mode: of its ports.
        certificate: with its chain.
        key: of the certificate, not encrypted.
        authorities: the certificates that peers are verified with.
        needs_client: a server takes only clients with a certificate.

    Raises:
        InvalidError: a mode without files, or a certificate without its key.
    """

    mode: TlsMode = TlsMode.DISABLED
    certificate: Path | None = None
    key: Path | None = None
    authorities: Path | None = None
    needs_client: bool = False

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise InvalidError("a certificate and its key belong together: give both")
        if self.mode is not TlsMode.DISABLED and self.certificate is None:
            raise InvalidError(f"TLS is {self.mode.value}: give certificate and key")
        if self.needs_client and self.authorities is None:
            raise InvalidError(
                "clients without a certificate are to be refused: give the authorities "
                "that sign theirs"
            )


def tls_config(
    mode: str,
    certificate: str = "",
    key: str = "",
    authorities: str = "",
    *,
    needs_client: bool = False,
) -> TlsConfig:
    """
    Returns the configuration of texts; an empty one is no file.

    Raises:
        InvalidError: an unknown mode, or as `TlsConfig`.
    """
    try:
        known = TlsMode(mode)
    except ValueError as error:
        # A misspelt one.
        expected = ", ".join(one.value for one in TlsMode)
        raise InvalidError(f"tlsMode={mode}: expected {expected}") from error
    return TlsConfig(
        known,
        _path(certificate),
        _path(key),
        _path(authorities),
        needs_client=needs_client,
    )


def _path(text: str) -> Path | None:
    return Path(text) if text else None


Mark = tuple[tuple[int, int, int], ...]


class _Contexts:
    """
    A context that is made again when one of its files changes. Any thread.
    """

    def __init__(
        self,
        files: tuple[Path, ...],
        make: Callable[[], ssl.SSLContext],
        say: Callable[[str], object],
    ) -> None:
        self._files = files
        self._make = make
        self._say = say
        self._said = ""
        self._lock = threading.Lock()
        self._seen = self._mark()
        self._now = self._made()

    def now(self) -> ssl.SSLContext:
        """
        Returns the context of the files as they are, or as they were last whole.
        """
        with self._lock:
            try:
                seen = self._mark()
                if seen != self._seen:
                    self._now = self._made()
                    self._seen, self._said = seen, ""
            except (InvalidError, OSError) as error:
                # They are being replaced, one after another.
                line = f"the former certificates stay in use: {error}"
                if line != self._said:
                    self._said = line
                    self._say(line)
            return self._now

    def _made(self) -> ssl.SSLContext:
        try:
            return self._make()
        except (ssl.SSLError, ValueError) as error:
            # No PEM, or a key of another certificate.
            names = ", ".join(map(str, self._files))
            raise InvalidError(
                f"{names}: no certificate, key and authorities that fit "
                f"each other: {error}"
            ) from error

    def _mark(self) -> Mark:
        marks = []
        for one in self._files:
            found = one.stat()
            marks.append((found.st_ino, found.st_mtime_ns, found.st_size))
        return tuple(marks)


class ServerTls:
    """
    The context of a server. Any thread.

    Args:
        config: with certificate and key.
        say: receives one line for people if changed files do not fit.

    Attributes:
        mode: of the port.
        certificate: its path.

    Raises:
        InvalidError: the files do not fit each other.
        OSError: one cannot be read.
    """

    def __init__(self, config: TlsConfig, say: Callable[[str], object] = bool) -> None:
        self.mode = config.mode
        self.certificate = config.certificate
        self._contexts = _Contexts(_files(config), lambda: _server(config), say)

    def context(self) -> ssl.SSLContext:
        """
        Returns the context for the next connection.
        """
        return self._contexts.now()


class ClientTls:
    """
    The context of a client. Any thread.

    Args:
        config: with authorities; without them those of the system are taken.
        say: receives one line for people if changed files do not fit.

    Raises:
        InvalidError: the files do not fit each other.
        OSError: one cannot be read.
    """

    def __init__(self, config: TlsConfig, say: Callable[[str], object] = bool) -> None:
        self._contexts = _Contexts(_files(config), lambda: _client(config), say)

    def context(self) -> ssl.SSLContext:
        """
        Returns the context for the next connection.
        """
        return self._contexts.now()


def _files(config: TlsConfig) -> tuple[Path, ...]:
    some = (config.certificate, config.key, config.authorities)
    return tuple(one for one in some if one is not None)


def _server(config: TlsConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load(context, config)
    if config.needs_client:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _client(config: TlsConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _load(context, config)
    if config.authorities is None:
        context.load_default_certs()
    return context


def _load(context: ssl.SSLContext, config: TlsConfig) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if config.certificate is not None:
        context.load_cert_chain(config.certificate, config.key)
    if config.authorities is not None:
        context.load_verify_locations(config.authorities)
