"""
The rates of one host: bytes that repairs, catch-up of replicas and verification bring
into it, and bytes that they take out of it.

All nodes of a host share them: its disks and its network are one. With a limit for the
latency of appends the rates yield to writers.

Source: AR-R12, AR-R20; docs/autorecovery.md, *Rates*.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pystore.clocks import clock_ms
from pystore.errors import InvalidError
from pystore.rates.joint_rate import JointRate
from pystore.rates.latency_samples import LatencySamples
from pystore.rates.shared_rate import SharedRate
from pystore.rates.yielding import yielded_rate

__all__ = ["LOOK_MS", "HostRates", "RateLimits"]

LOOK_MS = 1_000
"""How often `HostRates.look` is called."""

_LATELY_MS = 5_000
_MOST = 1 << 50


@dataclass(frozen=True, slots=True)
class RateLimits:
    """
    What an operator has set.

    Attributes:
        in_bytes: per second that come in; 0: no limit.
        out_bytes: per second that go out; 0: no limit.
        latency_ms: the 99th percentile of appends that the two yield to; 0: to none.

    Raises:
        InvalidError: a number is out of its range.
    """

    in_bytes: int = 0
    out_bytes: int = 0
    latency_ms: int = 0

    def __post_init__(self) -> None:
        for name, most in _RANGES.items():
            found = getattr(self, name)
            if not 0 <= found <= most:
                raise InvalidError(f"{name}: {found}: expected 0 to {most}")


_RANGES = {"in_bytes": _MOST, "out_bytes": _MOST, "latency_ms": 60_000}


class HostRates:
    """
    The rates of a host. Any thread.

    Args:
        limits: as configured.
        now_ms: a clock that never steps back.
        sleep: lets seconds pass.
        latency: samples of the replicas of this host.

    Attributes:
        inward: written here: segments that are pulled, catch-up of slaves here.
        outward: read here: segments and digests that are served, catch-up of slaves
            elsewhere, checks of own segments.
        serving: what is served to repairs: `outward`, and the rate that AutoRecovery
            told last (`serve_at`).
        latency: takes samples.
    """

    def __init__(
        self,
        limits: RateLimits | None = None,
        now_ms: Callable[[], int] = clock_ms,
        sleep: Callable[[float], object] = time.sleep,
        latency: LatencySamples | None = None,
    ) -> None:
        self._limits = limits or RateLimits()
        self._now_ms = now_ms
        self.inward = SharedRate(self._limits.in_bytes, now_ms, sleep)
        self.outward = SharedRate(self._limits.out_bytes, now_ms, sleep)
        self._served = SharedRate(0, now_ms, sleep)
        self.serving = JointRate(self.outward, self._served)
        self.latency = latency or LatencySamples()
        self.latency.is_wanted = bool(self._limits.latency_ms)
        self._lock = threading.Lock()
        self._looked_ms = self._changed_ms = now_ms()
        self._moved = (0, 0)
        self._p99_ms: float | None = None

    @property
    def limits(self) -> RateLimits:
        """
        As they are set now.
        """
        return self._limits

    def change(
        self,
        in_bytes: int | None = None,
        out_bytes: int | None = None,
        latency_ms: int | None = None,
    ) -> RateLimits:
        """
        Sets limits, from now on; ``None`` leaves one as it is. Returns all three.

        Raises:
            InvalidError: as `RateLimits`; nothing is changed.
        """
        with self._lock:
            old = self._limits
            self._limits = new = RateLimits(
                old.in_bytes if in_bytes is None else in_bytes,
                old.out_bytes if out_bytes is None else out_bytes,
                old.latency_ms if latency_ms is None else latency_ms,
            )
            self.latency.is_wanted = bool(new.latency_ms)
            self.inward.change(new.in_bytes)
            self.outward.change(new.out_bytes)
            self._changed_ms = self._now_ms()
            return new

    def serve_at(self, bytes_per_second: int) -> None:
        """
        Sets the rate of what is served to repairs, beside `outward`; it is not stored.

        Args:
            bytes_per_second: 0: none but `outward`; -1: as it was.
        """
        with self._lock:
            if bytes_per_second not in (-1, self._served.bytes_per_second):
                self._served.change(bytes_per_second)

    def look(self) -> None:
        """
        Lets the rates follow the latency of appends: call it every `LOOK_MS`.
        """
        with self._lock:
            now_ms, limits = self._now_ms(), self._limits
            taken_ms = max(1, now_ms - self._looked_ms)
            before, both = self._moved, (self.inward, self.outward)
            self._moved = self.inward.moved_bytes, self.outward.moved_bytes
            self._looked_ms = now_ms
            if not limits.latency_ms:
                self._p99_ms = None
                return
            # What a former rate caused says nothing about this one.
            lately_ms = min(now_ms - self._changed_ms, _LATELY_MS)
            self._p99_ms = p99_ms = self.latency.p99_ms(lately_ms)
            for rate, ceiling, old, new in zip(
                both,
                (limits.in_bytes, limits.out_bytes),
                before,
                self._moved,
                strict=True,
            ):
                moved = (new - old) * 1000 // taken_ms
                was = rate.bytes_per_second
                now = yielded_rate(was, ceiling, moved, p99_ms, limits.latency_ms)
                if now != was:
                    rate.change(now)
                if now < was:
                    self._changed_ms = now_ms

    def status(self) -> dict[str, Any]:
        """
        Returns limits, rates and the last latency as JSON values.
        """
        limits = self._limits
        return {
            "repairBytesPerSecond": limits.in_bytes,
            "serveBytesPerSecond": limits.out_bytes,
            "repairLatencyMs": limits.latency_ms,
            "inBytesPerSecond": self.inward.bytes_per_second,
            "outBytesPerSecond": self.outward.bytes_per_second,
            "inBytes": self.inward.moved_bytes,
            "outBytes": self.outward.moved_bytes,
            "toldServeBytesPerSecond": self._served.bytes_per_second,
            "appendP99Ms": self._p99_ms,
        }
