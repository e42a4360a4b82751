"""
The hosts: the last heartbeat of each, and how long it is valid. Pure.

All times are the controller's own boot time. The table is in memory, as that of the
brokers is: who watches over hosts asks the leading controller, which knows all of them
once it has led for the longest validity.

Source: docs/controller.md, *Hosts*.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace

from pystore.controller.protocol.host_descriptions import HostDescription

__all__ = ["HOSTS_MAX", "Hosts"]

HOSTS_MAX = 4_096
"""Of which one controller keeps the descriptions."""

_MS = 1_000_000


@dataclass(slots=True)
class _Heard:
    """
    The last heartbeat of one host.

    Attributes:
        told: as received.
        until_ns: the end of its validity, inclusive.
        since_ns: when it was heard first, or again after a silence.
    """

    told: HostDescription
    until_ns: int
    since_ns: int


class Hosts:
    """
    The hosts of one controller. One thread. Times never decrease from call to call.
    """

    def __init__(self) -> None:
        self._heard: dict[str, _Heard] = {}

    def receive(self, told: HostDescription, timeout_ms: int, now_ns: int) -> bool:
        """
        Takes a heartbeat. If there are too many hosts, the one that is silent for
        longest is forgotten.

        Returns:
            whether it was taken: there was room for it.
        """
        until_ns = now_ns + timeout_ms * _MS
        heard = self._heard.get(told.address)
        if heard is None:
            if len(self._heard) >= HOSTS_MAX and not self._forget_silent(now_ns):
                return False
            self._heard[told.address] = _Heard(told, until_ns, now_ns)
            return True
        if heard.until_ns < now_ns:
            heard.since_ns = now_ns
        heard.told, heard.until_ns = told, until_ns
        return True

    def _forget_silent(self, now_ns: int) -> bool:
        name = min(self._heard, key=lambda one: self._heard[one].until_ns)
        if self._heard[name].until_ns >= now_ns:
            return False
        del self._heard[name]
        return True

    def after(self, address: str, count: int, now_ns: int) -> list[HostDescription]:
        """
        Returns at most so many hosts, alive or not, in the order of their addresses.

        Args:
            address: those after it; empty: from the first one on.
            count: at most so many.
            now_ns: the time.
        """
        names = sorted(self._heard)
        first = bisect_right(names, address) if address else 0
        return [
            _described(self._heard[one], now_ns) for one in names[first : first + count]
        ]


def _described(heard: _Heard, now_ns: int) -> HostDescription:
    is_alive = now_ns <= heard.until_ns
    since_ns = heard.since_ns if is_alive else heard.until_ns
    return replace(
        heard.told, is_alive=is_alive, since_ms=max(0, now_ns - since_ns) // _MS
    )
