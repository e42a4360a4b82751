"""
``pystore admin events`` after failovers, and after another controller leads.
"""

from __future__ import annotations

import json
from pathlib import Path

from cluster.operated_set import broker_set
from lib.broker_process import until
from lib.command_line import run, run_json
from lib.controller.controller_process import ControllerProcess


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
            f"broker {after['brokerId']} is master in epoch {after['masterEpoch']}"
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
        with brokers.controller:
            pass  # it stops cleanly, and stores what it did not store yet
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


def test_a_file_that_forbids_unclean_elections_holds_and_the_order_is_told(
    tmp_path: Path,
) -> None:
    """
    By the answer to the operator, by `getControllerConfig`, and at the next start.
    """
    name, file = "enableElectUncleanMaster", tmp_path / "c.toml"
    file.write_text(f"{name} = false\n")
    words = ("-c", file, "--store", tmp_path / "records")
    with ControllerProcess(*words) as controller:
        controller.await_lead()
        at = ("-a", controller.address)
        found = run("admin", "updateControllerConfig", *at, "-k", name, "-v", "true")
        assert "has no effect here: the configuration says false" in found.stdout
        controller.wait_for(f"changed {name}=true")
    with ControllerProcess(*words) as controller:
        controller.wait_for("has no effect here: the configuration says false")
        shown = run("admin", "getControllerConfig", "-a", controller.address).stdout
        assert "changed by 127.0.0.1:" in shown
        assert f"  {name}" in shown
        told = run_json("admin", "getControllerConfig", "-a", controller.address)
        assert "false" == told["controllers"][controller.address][name]
        assert 1 == len(told["notes"][controller.address])
