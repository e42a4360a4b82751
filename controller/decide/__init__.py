"""
Decisions: from a command, the state and the facts to events and a reply.
"""

from __future__ import annotations

from pystore.controller.decide.dispatch import decide

__all__ = ["decide"]
