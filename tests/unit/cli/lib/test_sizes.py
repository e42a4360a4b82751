"""
Sizes on the command line.
"""

from __future__ import annotations

import click
import pytest

from pystore.cli.lib.sizes import parse_size

CONTEXT = click.Context(click.Command("x"))
OPTION = click.Option(["--size"])


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("64k", 65536), ("10G", 10 << 30), ("3MiB", 3 << 20), ("2tb", 2 << 40)],
)
def test_a_size_is_read_with_its_unit(text: str, size: int) -> None:
    """
    Units are of 1024, in either case.
    """
    assert size == parse_size(CONTEXT, OPTION, text)


def test_a_missing_size_is_none() -> None:
    """
    The option was not given.
    """
    assert parse_size(CONTEXT, OPTION, None) is None


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5g", "ten", "10x"])
def test_an_invalid_size_is_refused_with_an_example(text: str) -> None:
    """
    One line says which values are valid.
    """
    with pytest.raises(click.BadParameter, match="give bytes, or 64m, 10g"):
        parse_size(CONTEXT, OPTION, text)
