"""
The configuration file of a controller, in either of its forms.
"""

from __future__ import annotations

from pathlib import Path

from pystore.controller.server.config import (
    ConfigFile,
    parse_toml,
    settings_of_properties,
)
from pystore.fs.toml_file import read_toml_text
from pystore.rocketmq.properties_file import read_properties_file

__all__ = ["read_controller_config"]


def read_controller_config(path: Path) -> ConfigFile:
    """
    Returns the settings of a file: TOML (``*.toml``), or RocketMQ's
    ``controller.properties``.

    Raises:
        InvalidError: it is neither.
        OSError: it cannot be read.
    """
    if path.suffix != ".toml":
        return settings_of_properties(read_properties_file(path), str(path))
    return parse_toml(read_toml_text(path), str(path))
