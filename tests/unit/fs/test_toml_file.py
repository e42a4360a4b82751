"""
TOML files are read as text and parsed, with errors that name the file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pystore.errors import InvalidError
from pystore.fs.toml_file import parse_toml_text, read_toml_text


def test_a_file_becomes_values(tmp_path: Path) -> None:
    """
    Also text that is not ASCII.
    """
    path = tmp_path / "a.toml"
    path.write_text('name = "ä"\n[host]\nport = 1\n', "utf-8")

    text = read_toml_text(path)
    assert {"name": "ä", "host": {"port": 1}} == parse_toml_text(text, "a")


def test_another_encoding_is_refused_with_the_offset(tmp_path: Path) -> None:
    """
    The offset is that of the first byte that is not UTF-8.
    """
    path = tmp_path / "a.toml"
    path.write_bytes(b'a="\xe4"')

    with pytest.raises(InvalidError, match=r"a\.toml is not a TOML file.* offset 3"):
        read_toml_text(path)


def test_what_is_not_toml_is_refused_with_its_line() -> None:
    """
    The error names the file and the line.
    """
    with pytest.raises(InvalidError, match=r"^b\.toml: .*line 2"):
        parse_toml_text("a = 1\nb =\n", "b.toml")
