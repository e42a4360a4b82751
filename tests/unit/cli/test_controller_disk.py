"""
``pystore controller`` on a disk that is full for real.
"""

from __future__ import annotations

from pathlib import Path

from cluster.small_disks import NEEDS_MOUNTS, SmallDisk
from lib.controller.controller_process import ControllerProcess

from pystore.remoting.codes import RequestCode
from pystore.remoting.controller_headers import (
    GetNextBrokerIdRequest,
    GetNextBrokerIdResponse,
)
from pystore.remoting.fields import decode_fields

pytestmark = NEEDS_MOUNTS


def next_id(controller: ControllerProcess, name: str) -> int | None:
    """
    Returns the id that a new broker of a set would get.
    """
    answer = controller.ask(
        RequestCode.CONTROLLER_GET_NEXT_BROKER_ID,
        GetNextBrokerIdRequest("cluster", name),
    )
    assert 0 == answer.code, answer
    return decode_fields(GetNextBrokerIdResponse, answer.ext_fields).next_broker_id


def refused_set(controller: ControllerProcess, store: Path) -> str:
    """
    Makes new sets until the disk has no room for one, and returns its name.

    The first ones find room: LMDB uses the pages again that it does not need.
    """
    for number in range(1000):
        answer = controller.apply(1, f"set-{number}")
        if answer.code:
            break
    assert 1 == answer.code
    assert f"cannot commit to {store}: the disk is full" in (answer.remark or "")
    assert "nothing was changed: make space, then try again" in (answer.remark or "")
    return f"set-{number}"


def test_a_full_disk_refuses_commands_until_there_is_space(tmp_path: Path) -> None:
    """
    One line of the controller and the answer name the disk, nothing is changed, queries
    are answered, and the next command after space was freed is done.
    """
    with SmallDisk(tmp_path / "small") as disk:
        store = disk.path / "records"
        with ControllerProcess("--store", store, before=disk.inside) as controller:
            controller.wait_for("this controller leads")
            assert 0 == controller.apply(1).code
            disk.fill()
            refused = refused_set(controller, store)
            said = controller.wait_for("the disk is full")
            assert str(store) in said
            assert "make space, then try again" in said
            assert (2, 1) == (next_id(controller, "set"), next_id(controller, refused))
            assert controller.leads
            disk.free()
            assert 0 == controller.apply(1, refused).code
            assert 2 == next_id(controller, refused)


def test_a_first_start_on_a_full_disk_waits_for_space(tmp_path: Path) -> None:
    """
    It reports the reason, and leads by itself once there is space.
    """
    with SmallDisk(tmp_path / "small") as disk:
        store = disk.path / "records"
        disk.fill()
        with ControllerProcess("--store", store, before=disk.inside) as controller:
            said = controller.wait_for("this controller does not lead")
            assert str(store) in said
            assert "make space, then try again" in said
            assert not controller.leads
            disk.free()
            controller.wait_for("this controller leads")
            assert 0 == controller.apply(1).code


def test_a_controller_killed_on_a_full_disk_starts_again_there(tmp_path: Path) -> None:
    """
    Answered commands are there, refused ones are not.
    """
    with SmallDisk(tmp_path / "small") as disk:
        store = disk.path / "records"
        with ControllerProcess("--store", store, before=disk.inside) as first:
            first.await_lead()
            assert 0 == first.apply(1).code
            disk.fill()
            refused = refused_set(first, store)
            first.kill()
        with ControllerProcess("--store", store, before=disk.inside) as controller:
            # It may lead already: LMDB has pages that it uses again.
            controller.wait_for("this controller ")
            disk.free()
            controller.await_lead()
            assert (2, 1) == (next_id(controller, "set"), next_id(controller, refused))
            assert 0 == controller.apply(1, refused).code


def test_a_full_disk_for_log_lines_does_not_stop_the_controller(tmp_path: Path) -> None:
    """
    Its log lies on the disk of its records, and has a page to fill first.
    """
    with SmallDisk(tmp_path / "small") as disk:
        store, log = disk.path / "records", disk.path / "log"
        with ControllerProcess(
            "--store", store, before=disk.inside, stderr=disk.seen(log)
        ) as controller:
            controller.await_lead()
            disk.fill()
            refused = refused_set(controller, store)
            assert {1} == {controller.apply(1, refused).code for _ in range(50)}
            disk.free()
            assert 0 == controller.apply(1, refused).code
            assert controller.leads
