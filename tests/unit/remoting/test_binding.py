"""
What binds a signed request to its connection.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from lib.access_fixture import bound

from pystore.remoting.binding import RequestBinding, is_bound
from pystore.remoting.codes import CommandFlag
from pystore.remoting.command import RemotingCommand

REQUEST = RemotingCommand(1002, ext_fields={"a": "1"})


def test_requests_are_taken_in_their_order_and_once() -> None:
    """
    One may be missing: it was not sent.
    """
    server = RequestBinding.new()
    client = RequestBinding(server.challenge)
    first, second, third = (bound(client, REQUEST) for _ in range(3))
    assert is_bound(first)
    assert not is_bound(REQUEST)
    assert server.take(first)
    assert server.take(third)
    assert not server.take(second)
    assert not server.take(third)
    assert {"a": "1"}.items() <= third.ext_fields.items()


def test_a_request_is_taken_on_its_own_connection_only() -> None:
    """
    Challenges are random.
    """
    here, there = RequestBinding.new(), RequestBinding.new()
    assert here.challenge != there.challenge
    assert not there.take(bound(RequestBinding(here.challenge), REQUEST))


@pytest.mark.parametrize("changes", [{"code": 1011}, {"flag": CommandFlag.ONE_WAY}])
def test_another_code_or_flag_is_refused(changes: dict[str, int]) -> None:
    """
    RocketMQ's signature covers neither.
    """
    server = RequestBinding.new()
    found = bound(RequestBinding(server.challenge), REQUEST)
    assert not server.take(replace(found, **changes))  # type: ignore[arg-type]
    assert server.take(found)


def test_each_changed_field_of_a_binding_is_refused() -> None:
    """
    Missing, empty, not a number, of another script, too long.
    """
    seed = random.randrange(1 << 30)
    print("seed", seed)
    draw = random.Random(seed)
    server = RequestBinding.new()
    found = bound(RequestBinding(server.challenge), REQUEST)
    names = [name for name in found.ext_fields if name != "a"]
    assert 3 == len(names)
    for name in names:
        texts = [
            "",
            "0",
            "-1",
            "x",
            "\N{ARABIC-INDIC DIGIT FIVE}",
            "1" * 30,
            " 1",
            "1.0",
        ]
        for text in [*texts, str(draw.randrange(-9, 1))]:
            changed = replace(found, ext_fields={**found.ext_fields, name: text})
            assert not server.take(changed), (name, text)
        rest = {key: one for key, one in found.ext_fields.items() if key != name}
        assert not server.take(replace(found, ext_fields=rest))
    assert server.take(found)
