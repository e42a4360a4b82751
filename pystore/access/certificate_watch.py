"""
Says in advance when a certificate ends: connections are refused from then on.

Source: docs/security.md, *TLS*.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

__all__ = ["CertificateWatch"]

_WARN = dt.timedelta(days=30)
_AGAIN = dt.timedelta(days=1)
_LOOK = dt.timedelta(hours=1)


class CertificateWatch:
    """
    Watches the certificate of one process. One thread.

    Args:
        path: of the certificate, in PEM; ``None``: there is none.
        say: receives one line for people, once a day in the last 30 days.
        now: the time of day.
    """

    def __init__(
        self,
        path: Path | None,
        say: Callable[[str], object],
        now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
    ) -> None:
        self._path = path
        self._say = say
        self._now = now
        self._next = now()

    def look(self) -> None:
        """
        Looks whether the certificate ends soon; reads it once an hour at most.
        """
        now = self._now()
        if self._path is None or now < self._next:
            return
        self._next = now + _LOOK
        end = _end_of(self._path)
        if end is None or end - now > _WARN:
            return
        self._next = now + _AGAIN
        day = end.date().isoformat()
        if end <= now:
            self._say(f"{self._path} ended on {day}: peers refuse it; replace it")
            return
        days = (end - now).days
        self._say(f"{self._path} ends on {day}, in {days} days: replace it before")


def _end_of(path: Path) -> dt.datetime | None:
    """
    Returns when a certificate ends; ``None``: it cannot be read.
    """
    try:
        from cryptography import x509  # noqa: PLC0415

        return x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc
    except (ImportError, OSError, ValueError):
        # An extra that is not installed, or a file that is being replaced: TLS itself
        # says what is wrong with it.
        return None
