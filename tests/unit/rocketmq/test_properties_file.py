"""
Java properties files: what is read, and what is refused.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pystore.errors import InvalidError
from pystore.rocketmq.properties_file import parse_properties_text, read_properties_file


def test_separators_escapes_and_continuation_lines_are_javas(tmp_path: Path) -> None:
    """
    The last of equal keys counts; comments and empty lines are passed over.
    """
    path = tmp_path / "broker.conf"
    path.write_text(
        "# a comment\n! another = one\n\nname = first\n name=last \n"
        "colon:1\nlong = a,\\\n    b\n"
        "path = C\\:\\\\data\ncity = K\\u00f6ln\nnone =\n"
    )

    assert {
        "name": "last",
        "colon": "1",
        "long": "a,b",
        "path": "C:\\data",
        "city": "K\u00f6ln",
        "none": "",
    } == read_properties_file(path)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_file_is_utf_8_or_javas_latin_1(tmp_path: Path, encoding: str) -> None:
    """
    Both are in use for comments and names.
    """
    path = tmp_path / "broker.conf"
    path.write_bytes("brokerName = K\u00f6ln\n".encode(encoding))

    assert {"brokerName": "K\u00f6ln"} == read_properties_file(path)


def test_a_binary_file_is_refused_in_one_line(tmp_path: Path) -> None:
    """
    The error names the file and the offset of the first byte that is not text.
    """
    path = tmp_path / "broker.conf"
    path.write_bytes(b"name=1\n\x00\x01")

    with pytest.raises(InvalidError) as caught:
        read_properties_file(path)

    assert f"{path} is not a properties file: byte 0x00 at offset 7 is not text" == str(
        caught.value
    )


def test_an_invalid_escape_is_refused_with_its_source() -> None:
    """
    Java refuses such a file, too.
    """
    with pytest.raises(InvalidError, match=r"^body of 1009: .*u12"):
        parse_properties_text("name=\\u12\n", "body of 1009")


@pytest.mark.parametrize(
    ("text", "number", "line"),
    [
        ("a = 1\n\n# note\nThe records of a host\n", 4, "The records of a host"),
        ("a = 1\nlong = b,\\\n c\nalone\n", 4, "alone"),
        ("# pystore\n\n## Install\n\npip install it\n", 5, "pip install it"),
        ("<html>\n", 1, "<html>"),
        ("<!--\n Some terms\n-->\n\na = 1\nalone\n", 6, "alone"),
        ("<!-- Some terms\na = 1\n", 1, "<!-- Some terms"),
    ],
)
def test_a_text_that_is_no_configuration_is_refused_with_its_line(
    tmp_path: Path, text: str, number: int, line: str
) -> None:
    """
    Java would take its words as names of settings.
    """
    path = tmp_path / "broker.conf"
    path.write_text(text)

    with pytest.raises(InvalidError) as caught:
        read_properties_file(path)

    assert f"{path}: line {number}: {line!r} is not name=value" in str(caught.value)


@pytest.mark.parametrize("name", ["x.yaml", "x.yml", "rmq-proxy.json", "logback.xml"])
def test_a_file_of_another_form_is_refused_by_its_name(
    tmp_path: Path, name: str
) -> None:
    """
    Lines of YAML look like settings.
    """
    path = tmp_path / name
    path.write_text("records: here\n")

    with pytest.raises(InvalidError, match="by its name"):
        read_properties_file(path)
