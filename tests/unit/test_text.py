"""
Numbers as text for people, and keys for programs.
"""

from __future__ import annotations

import pytest

from pystore.text import (
    camel,
    count_text,
    json_keys,
    rate_text,
    seconds_text,
    size_text,
)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (12_345, "12.3 kB"),
        (999_499, "999 kB"),
        (999_999, "1.00 MB"),
        (1 << 30, "1.07 GB"),
        (5 * 10**18, "5000 PB"),
    ],
)
def test_sizes_have_three_digits_and_a_unit(size: int, text: str) -> None:
    """
    Units are powers of 1000, as for disks.
    """
    assert text == size_text(size)


def test_rates_times_and_counts_are_short() -> None:
    """
    A rate over no time is a dash.
    """
    assert "1.50 GB/s" == rate_text(3_000_000_000, 2)
    assert "-" == rate_text(1, 0.0)
    assert ("12.3 s", "45 ms", "0.12 ms") == (
        seconds_text(12.3),
        seconds_text(0.045),
        seconds_text(0.00012),
    )
    assert "1,234,567" == count_text(1234567)


def test_keys_are_in_camel_case() -> None:
    """
    RocketMQ's keys are in camel case, too.
    """
    assert "endOffset" == camel("end_offset")
    assert {"records": 1, "logBytes": 2} == json_keys({"records": 1, "log_bytes": 2})
