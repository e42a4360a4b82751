"""
Where the log of a replica begins and ends, as the controller compares it in an
election. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NOWHERE", "UNTOLD", "LogBegin", "LogEnd"]


@dataclass(frozen=True, slots=True, order=True)
class LogEnd:
    """
    How far a log goes. One of a higher epoch is further, however short it is.

    Attributes:
        epoch: of its last bytes; -1: not known.
        end: in bytes, exclusive; -1: not known.
    """

    epoch: int = -1
    end: int = -1


NOWHERE = LogEnd()
"""The end of a log that is not known."""


@dataclass(frozen=True, slots=True)
class LogBegin:
    """
    Where a log begins (B11).

    Attributes:
        offset: of its first byte; -1: not known, as of a broker of RocketMQ, or of no
            use, as it lacks the queue offsets of its begin, which no retention mends.
        is_filling: it began above the floor of its set, the begin of the master's log,
            and has not reached it since: it lacks records that the set has.
    """

    offset: int = -1
    is_filling: bool = False


UNTOLD = LogBegin()
"""The begin of a log that its broker did not tell."""
