"""
Java properties files: ``broker.conf`` and ``controller.properties``.

The library has Java's rules for escapes, continuation lines and separators. Four
things differ from Java: a file may be UTF-8 (else it is Latin-1, as in Java), white
space after a value is no part of it, a comment of XML before the first line is passed
over, as RocketMQ ships one in a ``controller-n2.conf``, and a file is refused for a
line that is neither ``name=value`` nor ``name:value``: Java reads any text as names.
"""

from __future__ import annotations

import re
from pathlib import Path

import javaproperties

from pystore.errors import InvalidError

__all__ = ["parse_properties_text", "read_properties_file"]

_find_xml_comment = re.compile(r"\s*<!--.*?-->", re.DOTALL).match
_find_control = re.compile(rb"[\x00-\x08\x0b\x0e-\x1f\x7f]").search


def read_properties_file(path: Path) -> dict[str, str]:
    """
    Returns the values of a file by their keys; of equal keys the last one counts.

    Raises:
        InvalidError: the file is binary or another text, or has an invalid escape.
        OSError: it cannot be read.
    """
    raw = path.read_bytes()
    control = _find_control(raw)
    if control is not None:
        raise InvalidError(
            f"{path} is not a properties file: byte 0x{control[0][0]:02x} at offset "
            f"{control.start()} is not text"
        )
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        # Java's own encoding, in which every byte is a character.
        text = raw.decode("latin-1")
    if comment := _find_xml_comment(text):
        # The lines keep their numbers.
        text = "\n" * comment[0].count("\n") + text[comment.end() :]
    found = parse_properties_text(text, str(path))
    _check_lines(path, text)
    return found


def _check_lines(path: Path, text: str) -> None:
    if path.suffix in _OTHER_FORMS:
        raise InvalidError(
            f"{path} is not a properties file by its name: RocketMQ's are broker.conf "
            "and controller.properties"
        )
    number = 1
    for line in javaproperties.parse(text):
        if isinstance(line, javaproperties.KeyValue) and not _is_setting(line.source):
            first = line.source.split("\n", maxsplit=1)[0].strip()
            raise InvalidError(
                f"{path}: line {number}: {first[:60]!r} is not name=value: is it the "
                "configuration of a RocketMQ broker or controller?"
            )
        number += len(line.source.splitlines())


_OTHER_FORMS = (".json", ".toml", ".xml", ".yaml", ".yml")
_is_setting = re.compile(r"\s*[A-Za-z_][\w.-]*\s*[=:]").match


def parse_properties_text(text: str, where: str) -> dict[str, str]:
    """
    Returns the values of a text by their keys; of equal keys the last one counts.

    Args:
        text: the content of a properties file, or of a body in this form.
        where: the source of the text, for the message.

    Raises:
        InvalidError: the text has an invalid escape.
    """
    try:
        found: dict[str, str] = javaproperties.loads(text)
    except javaproperties.InvalidUEscapeError as error:
        raise InvalidError(f"{where}: {error}") from error
    return {key: value.rstrip() for key, value in found.items()}
