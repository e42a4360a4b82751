"""
``pystore admin events`` after failovers, and after another controller leads.
"""

from __future__ import annotations

import json
from pathlib import Path

from cluster.operated_set import broker_set
from lib.broker_process import until
from lib.command_line import run


def test_what_happened_to_a_set_is_told_by_each_later_controller(
    tmp_path: Path,
) -> None:
    """
    On stderr as it happens, and in the history of the set.
    """
    with broker_set(tmp_path) as brokers:
        at = ("-a", brokers.controller.address)
        master = brokers.await_set(3)
        before = master.status()
        brokers.end(next(one for one, it in brokers.brokers.items() if it is master))
        after = until(
            lambda: (
                (now := brokers.await_set(2).status())["masterEpoch"]
                > before["masterEpoch"]
                and now
            )
        )
        elected = (
            f"broker {after['brokerId']} is master in epoch {after['masterEpoch']} "
            f"instead of broker {before['brokerId']}"
        )
        brokers.controller.wait_for(f"set b of cluster DefaultCluster: {elected}")
        line = until(
            lambda: next(
                (
                    one
                    for one in run("admin", "events", *at, "b").stdout.splitlines()
                    if elected in one
                ),
                "",
            )
        )
        assert "asked by" in line
        until(
            lambda: "joined the SyncStateSet" in run("admin", "events", *at, "b").stdout
        )
        brokers.stop_controller()
        brokers.start_controller()
        at = ("-a", brokers.controller.address)
        found = until(
            lambda: (
                (told := run("admin", "events", *at, "b", "--json")).exit_code == 0
                and json.loads(told.stdout)["events"]
            )
        )
        changes = [one.get("change") for one in found]
        assert {"IdApplied", "MasterElected", "SetChanged"} <= set(changes)
        assert any(elected in one["text"] for one in found)
        times = [one["time"] for one in found]
        assert sorted(times) == times


def test_a_set_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """
    A typing error is no empty history.
    """
    with broker_set(tmp_path) as brokers:
        brokers.await_set(3)
        found = run("admin", "events", "-a", brokers.controller.address, "x", "-c", "y")
        assert found.exit_code
        assert "broker set x does not exist" in found.stderr
