"""
Which of too many peers that have proven nothing yet has to go for the next one. Pure.

A peer with many addresses is not told apart from many peers; one with one address costs
the others nothing.

Source: docs/security.md, *Threats*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TypeVar

__all__ = ["oldest_of_busiest"]

_T = TypeVar("_T")


def oldest_of_busiest(hosts: Mapping[_T, str]) -> _T:
    """
    Returns the oldest peer of the address with the most of them.

    Args:
        hosts: the address of each peer, oldest first; not empty.
    """
    counts = Counter(hosts.values())
    return max(hosts, key=lambda one: counts[hosts[one]])
