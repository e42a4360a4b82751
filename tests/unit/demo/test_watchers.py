"""
The watchers tell what real processes answer, also after one of them was killed.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from pystore.demo.recorder import KnownSet, Recorder
from pystore.demo.set_processes import set_programs
from pystore.demo.timeline import Timeline
from pystore.demo.watchers import Watchers

WAIT_S = 60


def test_a_leader_and_a_broker_are_seen_to_come_and_go(tmp_path: Path) -> None:
    """
    The first broker of a set is its master.
    """
    records = {"store": os.fspath(tmp_path / "records")}
    (controller,), (broker,), access = set_programs(
        tmp_path, tmp_path, records, (1, 1), 1 << 20
    )
    timeline = Timeline((1,))
    recorder = Recorder(timeline, time.monotonic, lambda _: None)

    def leads(view: KnownSet) -> bool:
        return view.leader == controller.address

    addresses = {controller.name: controller.address}
    try:
        with Watchers(recorder, {1: broker.socket}, addresses, access):
            controller.start()
            assert recorder.wait_for(leads, WAIT_S)
            broker.start()
            assert recorder.wait_for(lambda view: view.master == 1, WAIT_S)
            broker.kill()
            assert recorder.wait_for(lambda view: not view.statuses, WAIT_S)
            controller.kill()
            assert recorder.wait_for(lambda view: not view.leader, WAIT_S)
            controller.start()
            assert recorder.wait_for(leads, WAIT_S)
    finally:
        broker.kill()
        controller.kill()

    assert "down" == timeline.state(1).role
    assert 2 == [one.what for one in timeline.events].count("leads")
