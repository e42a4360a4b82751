"""
Notes that tasks send: counts of queues, and damage.
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
    Counts and damage, also of a topic that is no text.
    """
    damage = CompactionDamage("/store/commitlog/0", 7, "record at offset 7: torn")
    odd = replace(COUNT, topic="\udcff")

    assert [COUNT, odd, damage] == [parse_note(n.pack()) for n in (COUNT, odd, damage)]


def test_two_counts_of_a_queue_are_one() -> None:
    """
    From the first record of the one to the last of the other.
    """
    other = QueueCount("T", 3, 5, 500, 0, 1, 10, 14, 6000, 7000)

    assert other.is_behind(COUNT)
    assert not COUNT.is_behind(other)
    assert not COUNT.is_behind(COUNT)
    assert QueueCount("T", 3, 15, 1500, 1, 3, 0, 14, 100, 7000) == COUNT.plus(other)


def test_queues_are_told_apart_by_topic_and_id() -> None:
    """
    In 64 bits, signed.
    """
    hashes = {
        queue_hash(topic, at) for topic in ("T", "T1", "") for at in range(-1, 99)
    }

    assert 300 == len(hashes)
    assert all(-(2**63) <= one < 2**63 for one in hashes)


def test_an_order_that_is_broken_is_said_in_words() -> None:
    """
    With both queue offsets.
    """
    said = out_of_order("T", 3, 5, 9)

    assert said.startswith("it has queue offset 5 of T, queue 3, but the queue had")
    assert "9" in said
