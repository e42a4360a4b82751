"""
The record layout in Python is the one of the core's headers.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pystore.consumequeue.queue import ENTRY_SIZE
from pystore.message import constants
from pystore.message.properties import DELAY, SCHEDULE_TOPIC, delivery_ms

CSRC = Path(__file__).parents[3] / "csrc"
DEFINE = re.compile(
    r"^#define (PS_\w+) (?:UINT32_C\()?(0x[0-9A-F]+|\d+|\"[^\"]*\")u?\)?\s*(?:/\*|$)",
    re.M,
)
HEADER = dict(DEFINE.findall((CSRC / "format.h").read_text(encoding="utf-8")))

# The name in Python, where it is not that of the header without ``PS_``.
NAMES = {
    "PS_RECORD_MIN": "RECORD_SIZE_MIN",
    "PS_HOST_IPV4": "IPV4_SIZE",
    "PS_HOST_IPV6": "IPV6_SIZE",
    "PS_SYS_COMPRESSED": "COMPRESSED",
    "PS_SYS_PREPARED": "NO_ENTRY",
    "PS_SYS_BORN_IPV6": "BORN_IPV6",
    "PS_SYS_STORE_IPV6": "STORE_IPV6",
    "PS_TOPIC_V1_MAX": "TOPIC_SIZE_MAX_V1",
    "PS_TOPIC_V2_MAX": "TOPIC_SIZE_MAX_V2",
    "PS_PROPERTIES_MAX": "PROPERTIES_SIZE_MAX",
    "PS_CRC_AREA": "CRC_SIZE",
}
ONLY_IN_PYTHON = {"AT_STORE_MS", "INNER_BATCH"}


def _value(text: str) -> int | str:
    return text.strip('"') if text.startswith('"') else int(text, 0)


def test_each_constant_has_the_value_of_the_header() -> None:
    """
    Every constant of the module is in ``csrc/format.h``, with the same value.
    """
    wanted = {
        NAMES.get(name, name.removeprefix("PS_")): _value(text)
        for name, text in HEADER.items()
    }
    ours = {
        name: value
        for name, value in vars(constants).items()
        if name.isupper() and name not in ONLY_IN_PYTHON
    }

    assert {name: wanted.get(name) for name in ours} == ours


def test_a_queue_entry_has_the_size_of_the_header() -> None:
    """
    The consume queues' format is not the record's, but its size is in the header.
    """
    assert _value(HEADER["PS_QUEUE_ENTRY"]) == ENTRY_SIZE


@pytest.mark.parametrize("sys_flag", [0x00, 0x10, 0x20, 0x30, 0xCF])
def test_each_host_has_its_own_size_bit(sys_flag: int) -> None:
    """
    A host has 20 bytes if its bit is set, else 8; other bits do not matter.
    """
    assert (20 if sys_flag & 0x10 else 8) == constants.born_host_size(sys_flag)
    assert (20 if sys_flag & 0x20 else 8) == constants.store_host_size(sys_flag)


def test_the_delay_levels_are_those_of_the_core() -> None:
    """
    The core has no call that returns its levels, so the test reads its source.
    """
    source = (CSRC / "properties.c").read_text(encoding="utf-8")
    found = re.search(r"delay_ms\[\] = \{([^}]*)\}", source)
    assert found is not None
    levels = [int(text) for text in found[1].split(",")]

    ours = [
        delivery_ms(SCHEDULE_TOPIC, {DELAY: str(level)}, 0)
        for level in range(1, len(levels) + 1)
    ]

    assert levels == ours
    assert f'"{SCHEDULE_TOPIC}"' in source
    last = delivery_ms(SCHEDULE_TOPIC, {DELAY: str(len(levels) + 1)}, 0)
    assert levels[-1] == last
