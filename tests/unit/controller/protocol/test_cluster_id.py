"""
The identity of a record store in commands.
"""

from __future__ import annotations

import pytest

from pystore.controller.protocol.cluster_id import (
    cluster_id_fields,
    cluster_id_of,
    is_cluster_id,
    is_told,
    refusal_of,
)
from pystore.remoting.fields import MissingField

ONE, OTHER = "0" * 31 + "1", "f" * 32


def test_an_identity_comes_back_as_it_was_sent() -> None:
    """
    None is no field, as of RocketMQ's peers.
    """
    assert ONE == cluster_id_of(cluster_id_fields(ONE))
    assert {} == cluster_id_fields("")
    assert "" == cluster_id_of({"other": "field"})
    assert is_told(cluster_id_fields(ONE), ONE)
    assert not is_told(cluster_id_fields(ONE), OTHER)
    assert not is_told({}, "")


@pytest.mark.parametrize("text", ["x", ONE[1:], ONE + "0", ONE.replace("1", "G"), "\n"])
def test_anything_else_is_refused(text: str) -> None:
    """
    It would be shown to people, and never be equal.
    """
    assert not is_cluster_id(text)
    with pytest.raises(MissingField, match="is no UUID"):
        cluster_id_of({"pystoreClusterId": text})


def test_only_two_different_identities_do_not_belong_together() -> None:
    """
    The text names both, and what to do.
    """
    for pair in ((ONE, ONE), ("", ONE), (ONE, ""), ("", "")):
        assert "" == refusal_of(*pair)
    text = refusal_of(ONE, OTHER)
    assert ONE in text
    assert OTHER in text
    assert "correct controllerAddr" in text
