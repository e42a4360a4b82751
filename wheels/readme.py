"""
README.md as the package index shows it.
"""

from __future__ import annotations

import re

__all__ = ["RELATIVE_LINK", "absolute_links"]

RELATIVE_LINK = re.compile(r"\]\((?!\w+:|#)([^)\s]+)\)")


def absolute_links(text: str, source: str | None, version: str) -> str:
    """
    Returns Markdown whose links into the project work outside of it.

    Args:
        text: Markdown with links relative to the root of the project.
        source: address of the repository; None leaves the links as they are.
        version: of the release whose pages they shall show.
    """
    if source is None:
        return text
    return RELATIVE_LINK.sub(rf"]({source}/blob/v{version}/\1)", text)
