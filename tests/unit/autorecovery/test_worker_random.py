"""
Workers and Auditors under random schedules, as of `lib.autorecovery.repair_schedule`.

A failure names its seed; ``RECOVERY_SEED`` repeats it, ``RECOVERY_SCHEDULES`` is their
number.
"""

from __future__ import annotations

import os
from random import Random

from lib.autorecovery.marks import corrupt
from lib.autorecovery.model_set import BLOCKS, RIGHT, ROTTEN
from lib.autorecovery.repair_schedule import KEYS, RepairSchedule, run_schedule

from pystore.autorecovery.mark import Priority

SCHEDULES = int(os.environ.get("RECOVERY_SCHEDULES", "100"))
FIRST_SEED = int(os.environ.get("RECOVERY_SEED", "0")) or Random().randrange(1 << 30)


def test_marked_damage_is_repaired_or_buried_whatever_happens() -> None:
    """
    In many short schedules.
    """
    for number in range(SCHEDULES):
        run_schedule(FIRST_SEED + number)


def test_without_faults_every_copy_becomes_good() -> None:
    """
    One good copy of each block is enough.
    """
    schedule = RepairSchedule(7)
    for segment, key in enumerate(KEYS):
        for one in (1, 2, 3):
            it = schedule.set.replicas[one]
            it.copies[segment][one] = ROTTEN
            facts = {one: corrupt(one)}
            schedule.marker.mark(key, facts, Priority.LAST_COPY, by="auditor")
    schedule.drain()

    assert {} == schedule.marker.dead()
    assert all(
        it.copies == [[RIGHT] * BLOCKS] * len(KEYS)
        for it in schedule.set.replicas.values()
    )
