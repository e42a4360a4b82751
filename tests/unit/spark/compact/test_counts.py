"""
Notes of tasks: counts of queues, and damage.
"""

from __future__ import annotations

from dataclasses import replace

from pystore.spark.compact.counts import (
    CompactionDamage,
    QueueCount,
    out_of_order,
    parse_note,
    queue_hash,
)

COUNT = QueueCount("T", 3, 10, 1000, 1, 2, 0, 9, 100, 5000)


def test_notes_are_read_as_they_were_written() -> None:
    """
    Counts and damage, also of a topic that is not UTF-8.
    """
    damage = CompactionDamage("/store/commitlog/0", 7, "record at offset 7: torn")
    odd = replace(COUNT, topic="\udcff")

    assert [COUNT, odd, damage] == [parse_note(n.pack()) for n in (COUNT, odd, damage)]


def test_two_counts_of_a_queue_can_be_added() -> None:
    """
    The sum spans from the first record of one to the last record of the other.
    """
    other = QueueCount("T", 3, 5, 500, 0, 1, 10, 14, 6000, 7000)

    assert other.is_behind(COUNT)
    assert not COUNT.is_behind(other)
    assert not COUNT.is_behind(COUNT)
    assert QueueCount("T", 3, 15, 1500, 1, 3, 0, 14, 100, 7000) == COUNT.plus(other)


def test_queues_have_different_hashes() -> None:
    """
    The hash has 64 bits and a sign.
    """
    hashes = {
        queue_hash(topic, at) for topic in ("T", "T1", "") for at in range(-1, 99)
    }

    assert 300 == len(hashes)
    assert all(-(2**63) <= one < 2**63 for one in hashes)


def test_the_error_names_both_queue_offsets() -> None:
    """
    The queue offsets do not rise with the log.
    """
    text = out_of_order("T", 3, 5, 9)

    assert text.startswith("it has queue offset 5 of T, queue 3, but an earlier")
    assert "9" in text
