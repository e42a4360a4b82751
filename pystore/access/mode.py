"""
What a server does with requests that no user may send. Pure.

Source: docs/security.md, *Modes*.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["AccessMode"]


class AccessMode(Enum):
    """
    The mode of a gate.
    """

    OFF = "off"
    """It looks at no signature."""

    PERMISSIVE = "permissive"
    """It carries the request out, and says what it would refuse."""

    ENFORCING = "enforcing"
    """It refuses the request."""
