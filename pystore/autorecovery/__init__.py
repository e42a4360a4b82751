"""
AutoRecovery: segments of broker sets that lack a good copy, and their repair.

The queue of such segments is in `pystore.autorecovery.queue`. See docs/autorecovery.md.
"""

from __future__ import annotations

__all__: list[str] = []
