"""
A repair as JSON values.
"""

from __future__ import annotations

from typing import Any

from pystore.segments.mending import MendProgress

__all__ = ["progress_rows"]


def progress_rows(progress: MendProgress) -> dict[str, Any]:
    """
    Returns the steps of a repair, and what no copy mends.
    """
    done = {step.base for step in progress.done}
    return {
        "steps": [
            {
                "segment": step.base,
                "action": step.action.value,
                "reason": step.reason,
                "from": [one.name for one in step.sources],
                "blocks": list(step.blocks),
                "isDone": step.base in done,
            }
            for step in progress.plan.steps
        ],
        "unmended": [
            {
                "segment": one.base,
                "reason": one.reason,
                "refusals": list(one.refusals),
            }
            for one in progress.unmended
        ],
    }
