"""
The links of the package index: those of the description and those of the metadata.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["RELATIVE_LINK", "absolute_links", "project_urls", "repository"]

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


def repository(environment: Mapping[str, str]) -> str | None:
    """
    Returns the address of the repository whose workflow builds; None: a checkout.
    """
    server, name = (
        environment.get(f"GITHUB_{one}") for one in ("SERVER_URL", "REPOSITORY")
    )
    return f"{server}/{name}" if server and name else None


def project_urls(source: str | None, version: str) -> dict[str, str]:
    """
    Returns the links of the metadata by their labels.

    Args:
        source: address of the repository; None: there are no links.
        version: of the release whose pages they shall show.
    """
    if source is None:
        return {}
    pages = f"{source}/blob/v{version}"
    return {
        "Source": source,
        "Documentation": f"{pages}/README.md",
        "Changelog": f"{pages}/CHANGELOG.md",
        "Issues": f"{source}/issues",
        "Security": f"{pages}/SECURITY.md",
    }
