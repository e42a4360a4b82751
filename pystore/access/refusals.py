"""
Counts refused requests, and says them at most once a minute for each source. Pure.

Source: docs/security.md, *Refusals*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

__all__ = ["SOURCES_MAX", "RefusalCounts"]

SOURCES_MAX = 256
"""Sources that are told apart within one interval: strangers fill no memory."""

_EVERY_S = 60.0
_OTHERS = "other addresses"


class RefusalCounts:
    """
    The refusals of one server. One thread.

    Args:
        say: receives the lines.

    Attributes:
        total: since the start.
    """

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        self._counts: dict[str, Counter[str]] = {}
        self._since_s: dict[str, float] = {}
        self.total = 0

    def note(
        self, host: str, reason: str, now_s: float, *, is_refused: bool = True
    ) -> None:
        """
        Counts a refusal. The first one of a source is said at once.

        Args:
            host: the address of the requester, without its port.
            reason: one of a few texts of ours.
            now_s: of a clock that never steps back, in seconds.
            is_refused: otherwise it would be, in another mode.
        """
        self.total += 1
        reason = f"{'refused' if is_refused else 'would be refused'}: {reason}"
        source = host
        if host not in self._since_s and len(self._since_s) >= SOURCES_MAX:
            source = _OTHERS
        if source not in self._since_s:
            self._since_s[source] = now_s
            self._say(f"request of {source} {reason}")
            return
        self._counts.setdefault(source, Counter())[reason] += 1

    def flush(self, now_s: float) -> None:
        """
        Says the counts of the sources whose interval has ended, and forgets them.
        """
        for source, since_s in list(self._since_s.items()):
            if now_s - since_s < _EVERY_S:
                continue
            del self._since_s[source]
            counts = self._counts.pop(source, None)
            if counts:
                # Its interval begins again: what goes on is said once a minute.
                self._since_s[source] = now_s
                self._say(
                    f"{counts.total()} more requests of {source} in "
                    f"{now_s - since_s:.0f} s: {', '.join(_texts(counts))}"
                )


def _texts(counts: Counter[str]) -> Iterator[str]:
    for reason, count in counts.most_common():
        yield f"{count} times {reason}"
