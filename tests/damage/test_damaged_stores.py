"""
Random damage to small stores: nothing acknowledged is lost in silence, nothing lost is
called whole, and the tools agree; some cases also by the commands and by RocketMQ.
"""

from __future__ import annotations

import os
import random
import shutil
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from damage.commands import judge_commands
from damage.harm import Harm, harm
from damage.judge import DATABASE, judge, judge_beside_writer, judge_healed
from damage.reading import judge_reading
from damage.rocketmq_reader import RocketmqReader
from damage.running_writer import RunningWriter
from damage.stores import Kept

SEED = int(os.environ.get("PS_SEED", "1"))
CASES = int(os.environ.get("DAMAGE_CASES", "600"))
PARTS = 2
"""Parts of the cases, for as many processes."""

RARE = 0.1
"""The share of the stores with a writer, and of those of RocketMQ: they take time."""

HEALED = 0.2
"""The share of the cases that the doctor heals, every other one from a whole copy."""

EVERY = 50
"""Of so many cases one is also judged by the commands and by RocketMQ."""


@pytest.fixture(scope="module")
def rocketmq(folder: Path) -> Iterator[RocketmqReader]:
    """
    RocketMQ in one process, if Java is installed.
    """
    with RocketmqReader(folder) as reader:
        yield reader


@pytest.mark.parametrize("part", range(PARTS))
def test_no_damage_loses_a_synced_record_in_silence(
    folder: Path, stores: list[Kept], rocketmq: RocketmqReader, part: int
) -> None:
    """
    Each case is named by its number under the seed.
    """
    began = time.monotonic()
    numbers = range(part, CASES, PARTS)
    objections = {}
    for number in numbers:
        try:
            found = _case(folder, stores, number, rocketmq)
        except Exception:
            # One case that ends so is an objection; the others are judged, too.
            found = [traceback.format_exc()]
        finally:
            for path in (*folder.glob("*.lost-*"), *folder.glob("*.healed-*")):
                shutil.rmtree(path)
        if found:
            objections[number] = found
            # A long run tells what it found before its end.
            print(f"seed {SEED}, case {number}: {found}", flush=True)
    rate = len(numbers) / (time.monotonic() - began) * 3600
    print(
        f"seed {SEED}: {len(numbers)} cases, {rate:,.0f} an hour; RocketMQ read "
        f"{rocketmq.stores_read} stores{rocketmq.left_out}"
    )

    assert {} == objections, f"seed {SEED}"


def _case(
    folder: Path, stores: list[Kept], number: int, rocketmq: RocketmqReader
) -> list[str]:
    draw = random.Random(f"{SEED} {number}")
    kept = _choose(stores, draw)
    is_copy = draw.random() < 0.3
    root = folder / "copy" if is_copy else kept.root
    kept.restore(root)
    is_chosen = number // PARTS % EVERY == 0
    found: list[str] = []
    if kept.state == "writer running":
        kept, harms, found = _under_writer(root, kept, draw)
    else:
        harms = harm(root, draw, kept)
    found += judge_reading(root, kept, with_arrow=is_chosen)
    if is_chosen:
        found += judge_commands(root)
    if draw.random() < HEALED:
        found += judge_healed(root, kept, harms, has_copy=draw.random() < 0.5)
    else:
        found += judge(root, kept, harms)
    if is_chosen:
        found += rocketmq.judge(root, kept)
    label = f"{kept.state}, queues {kept.has_queues}, CRC {kept.has_crc}"
    where = "a copy" if is_copy else "in place"
    return [f"{label}, {where}, {harms}: {one}" for one in found]


def _choose(stores: list[Kept], draw: random.Random) -> Kept:
    chance = draw.random()
    state = "writer running" if chance < RARE else "of RocketMQ"
    if chance < 2 * RARE:
        return draw.choice([one for one in stores if one.state == state])
    rare = ("writer running", "of RocketMQ")
    return draw.choice([one for one in stores if one.state not in rare])


def _under_writer(
    root: Path, kept: Kept, draw: random.Random
) -> tuple[Kept, list[Harm], list[str]]:
    """
    Damages a store while a process writes it; the store afterwards.
    """
    with RunningWriter(root, kept) as writer:
        kept = replace(kept, records=kept.records | writer.records)
        harms = harm(root, draw, kept)
        writer.may_abort = any(one.path == DATABASE for one in harms)
        found = judge_beside_writer(root, kept, harms)
        outcome = writer.finish(is_killed=draw.random() < 0.5)
    return replace(kept, records=kept.records | outcome.records), harms, found
