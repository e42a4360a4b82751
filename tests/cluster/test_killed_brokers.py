"""
A master and two slaves in processes of their own, killed by SIGKILL again and again
while 64 threads append.

``CLUSTER_SECONDS`` says for how long (`make cluster`: two minutes), ``CLUSTER_SEED``
repeats what chance decided.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

from cluster.brokers import BROKERS, Brokers
from cluster.comparison import check_stores

SECONDS = float(os.environ.get("CLUSTER_SECONDS", "6"))
SEED = int(os.environ.get("CLUSTER_SEED", random.randrange(2**32)))


def test_no_acknowledged_record_is_lost_when_any_broker_is_killed(
    tmp_path: Path,
) -> None:
    """
    Each in turn, at times two or all at once: whatever `all-synced` or `all` was given
    is on every member in the end, and the members are equal.
    """
    print(f"CLUSTER_SEED={SEED}")
    draw = random.Random(SEED)
    until = time.monotonic() + SECONDS
    kills = rounds = 0
    with Brokers(tmp_path / "set", draw) as brokers:
        while rounds < len(BROKERS) + 1 or time.monotonic() < until:
            brokers.wait(lambda: brokers.is_complete)
            before = brokers.acked_bytes()
            brokers.wait(lambda: brokers.acked_bytes() > before)  # noqa: B023
            brokers.pump(draw.uniform(0, 1))
            victims = _victims(brokers, rounds, draw)
            for broker_id in victims:
                brokers.kill(broker_id)
                brokers.pump(draw.choice([0, 0, draw.uniform(0, 0.5)]))
            brokers.pump(draw.choice([0, draw.uniform(0, 1)]))
            for broker_id in draw.sample(victims, len(victims)):
                brokers.start(broker_id)
            kills, rounds = kills + len(victims), rounds + 1
        brokers.close()
        records = check_stores(brokers)
        elections = brokers.elections
    print(f"{kills} kills, {elections} elections, {records} acknowledged records")
    assert elections > 1


def _victims(brokers: Brokers, rounds: int, draw: random.Random) -> list[int]:
    """
    The master in every other round, so each broker in turn, then all.
    """
    assert brokers.register.master is not None
    master = brokers.register.master.broker_id
    slaves = [one for one in BROKERS if one != master]
    kinds = [
        [master],
        [slaves[rounds % 2]],
        draw.sample(slaves, 2),
        draw.sample(BROKERS, 3),
        [master, draw.choice(slaves)],
    ]
    return kinds[rounds % len(kinds)] if rounds < 4 else draw.choice(kinds)
