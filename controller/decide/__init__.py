"""
Decisions: a command, the state and the facts in; events and a reply out.
"""

from __future__ import annotations

from pystore.controller.decide.dispatch import decide

__all__ = ["decide"]
