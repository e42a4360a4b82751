"""
The identity of a broker: names, check codes, and mismatches.
"""

from __future__ import annotations

import json

import pytest
from lib.oracle.golden_data import GOLDEN

from pystore.controller.identity.identity import (
    ConfiguredIdentity,
    broker_identity_of,
    check_code,
    mismatch_of,
)
from pystore.errors import InvalidError
from pystore.rocketmq.identity_file import (
    BrokerIdentity,
    TemporaryIdentity,
    parse_identity,
    parse_temporary_identity,
)

NAMED = ConfiguredIdentity("c", "b", "127.0.0.1:10911")


@pytest.mark.parametrize(
    ("cluster", "broker", "address", "line"),
    [
        ("", "b", "a:1", "cluster name is empty"),
        ("c", "b#1", "a:1", "separates the fields"),
        ("c", "b", "", "give HOST:PORT"),
        ("c", "b", "a;b:1", "give HOST:PORT"),
        ("c", "b", "a#b:1", "give HOST:PORT"),
    ],
)
def test_a_name_that_the_files_cannot_hold_is_refused(
    cluster: str, broker: str, address: str, line: str
) -> None:
    """RMQ-R15: before anything is sent or written."""
    with pytest.raises(InvalidError, match=line):
        ConfiguredIdentity(cluster, broker, address)


def test_a_code_begins_with_the_address() -> None:
    """RMQ-R14: RocketMQ's controllers take it from there, up to the first semicolon."""
    code = check_code("[::1]:10911", 1700000000000, bytes(range(8)))

    assert "[::1]:10911;1700000000000;0001020304050607" == code
    assert "[::1]:10911" == code.split(";")[0]


def test_two_brokers_of_one_address_have_two_codes() -> None:
    """Also at the same moment: equal codes mean the same broker."""
    one, other = (check_code("a:1", 7, bytes([n]) * 8) for n in (1, 2))

    assert one != other
    with pytest.raises(InvalidError, match="8 random bytes"):
        check_code("a:1", 7, b"short")


def test_a_code_comes_back_from_the_file_of_rocketmq() -> None:
    """It holds nothing that the file's form cannot."""
    code = check_code("a:1", 7, bytes(8))
    temporary = TemporaryIdentity(NAMED.with_id(3), code)

    assert temporary == parse_temporary_identity(temporary.encode())


def test_what_rocketmq_wrote_is_written_the_same() -> None:
    """Byte for byte, both files, whatever the names."""
    folder = GOLDEN / "identity"
    for it in json.loads((folder / "expected.json").read_text())["files"]:
        named = ConfiguredIdentity(it["clusterName"], it["brokerName"], "a:1")
        content = (folder / it["file"]).read_bytes()
        draft = (folder / it["tempFile"]).read_bytes()
        ours = named.with_id(it["brokerId"])
        assert (ours, content) == (parse_identity(content), ours.encode())
        temporary = TemporaryIdentity(ours, it["registerCheckCode"])
        assert (temporary, draft) == (
            parse_temporary_identity(draft),
            temporary.encode(),
        )
        assert "" == mismatch_of(temporary, named) == mismatch_of(ours, named)


def test_an_own_identity_and_an_empty_store_fit() -> None:
    """A store without an identity has no mismatch."""
    assert ["", "", ""] == [
        mismatch_of(stored, NAMED)
        for stored in (None, NAMED.with_id(1), TemporaryIdentity(NAMED.with_id(9), "x"))
    ]


def test_an_identity_of_another_broker_set_says_what_to_do() -> None:
    """RMQ-R12: one line, with both names."""
    line = mismatch_of(BrokerIdentity("c", "other", 3), NAMED)

    assert (
        "the store belongs to broker set 'other' (broker 3), and the configuration "
        "says 'b': correct brokerName, or give this broker a store of its own"
    ) == line


def test_names_and_id_are_those_of_either_form() -> None:
    """Confirmed or not."""
    settled = NAMED.with_id(4)

    assert (
        settled
        == broker_identity_of(settled)
        == broker_identity_of(TemporaryIdentity(settled, "x"))
    )
