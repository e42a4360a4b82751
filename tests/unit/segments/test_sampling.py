"""
The sampled blocks of a round: as many as requested, the same on every host.
"""

from __future__ import annotations

import random
from itertools import product

from pystore.segments.sampling import sample_blocks

COUNTS = [*range(1, 40), 64, 100, 255, 256, 257, 300]
SEGMENT = 3 << 30


def test_exactly_the_requested_share_of_blocks_is_read() -> None:
    """
    The first block, the last one, and the share of the others, rounded up.
    """
    for percent, count, number in product(range(101), COUNTS, (0, 1, 7, 10**6)):
        inner = max(0, count - 2)
        share = -(-inner * percent // 100)
        chosen = sample_blocks(SEGMENT, count, percent, number)

        assert min(count, 2 + share) == len(chosen), (percent, count, number)
        assert sorted(set(chosen)) == list(chosen)
        assert (0, count - 1) == (chosen[0], chosen[-1])


def test_every_block_is_read_within_a_known_number_of_rounds() -> None:
    """
    Within any ceil(100/p) consecutive rounds.
    """
    seed = random.randrange(2**32)
    print("seed", seed)
    first = random.Random(seed).randrange(1000)
    for percent, count in product(range(1, 101), COUNTS):
        seen: set[int] = set()
        for number in range(first, first + -(-100 // percent)):
            seen.update(sample_blocks(SEGMENT, count, percent, number))

        assert set(range(count)) == seen, (percent, count)


def test_without_a_share_the_first_and_the_last_block_are_read() -> None:
    """
    This holds in every round.
    """
    for count, number in product(COUNTS, range(5)):
        assert {0, count - 1} == set(sample_blocks(SEGMENT, count, 0, number))


def test_the_choice_depends_on_its_arguments_only() -> None:
    """
    It is the same as when this test was written.
    """
    assert (0, 1, 4, 10, 14, 17, 22, 24, 28, 32, 37, 39) == sample_blocks(
        65536, 40, 25, 3
    )


def test_other_segments_have_other_blocks_read() -> None:
    """
    So damage at the same place of every file is found in some of them.
    """
    choices = {sample_blocks(base << 30, 256, 5, 0) for base in range(20)}

    assert 20 == len(choices)


def test_all_of_a_segment_is_read_at_100_percent() -> None:
    """
    This holds in every round.
    """
    assert tuple(range(256)) == sample_blocks(0, 256, 100, 9)


def test_a_segment_without_blocks_has_none_to_read() -> None:
    """
    As one that nothing was written to.
    """
    assert () == sample_blocks(0, 0, 50, 0)
