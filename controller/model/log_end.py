"""
Where the log of a replica ends, as the controller compares it in an election. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NOWHERE", "LogEnd"]


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
