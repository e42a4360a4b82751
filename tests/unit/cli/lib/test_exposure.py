"""
Which listeners need a word of the operator.
"""

from __future__ import annotations

import click
import pytest

from pystore.cli.lib.exposure import Listener, exposed_lines

LACKS = ("credentialsFile", "tlsMode")


@pytest.mark.parametrize("host", ["", "0.0.0.0", "10.0.0.1", "::", "broker-a"])
@pytest.mark.parametrize("needs", [LACKS, LACKS[:1], LACKS[1:]])
def test_a_listener_that_others_reach_needs_all_or_a_word(
    host: str, needs: tuple[str, ...]
) -> None:
    """The refusal says what is missing, and the first line of the log, too."""
    one = Listener("broker b", host, 10911, needs)
    with pytest.raises(click.UsageError, match=" and ".join(needs)):
        exposed_lines([one], insecure=False)
    (line,) = exposed_lines([one], insecure=True)
    assert line.startswith(f"insecure: broker b listens on {host or 'every address'}:")
    assert line.endswith(" and ".join(needs))


@pytest.mark.parametrize(
    "one",
    [
        Listener("b", "10.0.0.1", 1, ()),
        *(Listener("b", host, 1, LACKS) for host in ("localhost", "127.0.0.2", "::1")),
    ],
)
def test_secured_and_local_listeners_need_none(one: Listener) -> None:
    """Nothing is said of them."""
    assert exposed_lines([one], insecure=False) == []
