"""
TOML files: the configuration of controllers and brokers.

Values are checked by those who know the settings.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from pystore.errors import InvalidError

__all__ = ["parse_toml_text", "read_toml_text"]


def read_toml_text(path: Path) -> str:
    """
    Returns the text of a file.

    Raises:
        InvalidError: it is not UTF-8, as TOML is.
        OSError: it cannot be read.
    """
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        # Another encoding, or a binary file.
        raise InvalidError(
            f"{path} is not a TOML file: the byte at offset {error.start} is not UTF-8"
        ) from error


def parse_toml_text(text: str, where: str) -> dict[str, Any]:
    """
    Returns the values of a TOML text by their keys.

    Args:
        text: the content of a file.
        where: the file, for the message.

    Raises:
        InvalidError: the text is not TOML.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # The text names the line.
        raise InvalidError(f"{where}: {error}") from error
