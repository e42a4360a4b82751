"""
The files of the nodes that were added to a host, and of those that were removed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pystore.broker.node_files import NodeFiles, name_as_file
from pystore.errors import InvalidError
from pystore.fs.atomic import SYSTEM, Calls

GIVEN = {"brokerName": "b", "storePathRootDir": "/data/a b=c", "listenPort": "10911"}
NONE: frozenset[str] = frozenset()


class Killed(BaseException):
    """
    The end of the process, before a system call.
    """


def files(folder: Path, calls: Calls = SYSTEM) -> NodeFiles:
    """
    As a process that starts finds them.
    """
    found = NodeFiles(folder / "nodes", calls)
    found.prepare(NONE)
    return found


def killing(number: int) -> Calls:
    """
    System calls, of which one is the last that is not made.
    """
    count = 0

    def step() -> None:
        nonlocal count
        count += 1
        if count > number:
            raise Killed

    def counted(name: str) -> Any:
        def call(*words: object) -> Any:
            step()
            return getattr(SYSTEM, name)(*words)

        return call

    return Calls(*map(counted, ("open", "write", "sync", "rename", "unlink")))


def test_an_added_node_is_there_after_a_restart(tmp_path: Path) -> None:
    """
    With its settings; its name may be any text.
    """
    one = files(tmp_path)
    one.put("b", GIVEN)
    one.put("b/ö", {**GIVEN, "brokerName": "b/ö"})
    assert {"b": GIVEN, "b/ö": {**GIVEN, "brokerName": "b/ö"}} == files(
        tmp_path
    ).added()
    assert NONE == files(tmp_path).removed()


def test_a_removed_node_is_gone_after_a_restart(tmp_path: Path) -> None:
    """
    Also if the process ended before the store was closed. Nothing is left of it.
    """
    one = files(tmp_path)
    one.put("b", GIVEN)
    one.remove("b", None)
    assert {} == one.added()
    assert {} == files(tmp_path).added()
    assert ["tmp"] == [each.name for each in (tmp_path / "nodes").iterdir()]


def test_a_removed_node_of_the_configuration_file_stays_removed(tmp_path: Path) -> None:
    """
    Until it is added again.
    """
    one = files(tmp_path)
    one.remove("b", None)
    one.finish("b", is_configured=True)
    again = NodeFiles(tmp_path / "nodes")
    again.prepare(frozenset({"b"}))
    assert {"b"} == again.removed()
    again.put("b", GIVEN)
    assert NONE == again.removed()


def test_a_store_is_deleted_with_its_node_and_once(tmp_path: Path) -> None:
    """
    The process may end in between: the next one goes on.
    """
    store = tmp_path / "store"
    (store / "commitlog").mkdir(parents=True)
    (store / "commitlog" / "0").write_bytes(b"x")
    one = files(tmp_path)
    one.put("b", GIVEN)
    one.remove("b", store)
    assert store.exists()
    again = NodeFiles(tmp_path / "nodes")
    again.prepare(frozenset({"b"}))
    assert not store.exists()
    # Another store has the place.
    store.mkdir()
    again.prepare(frozenset({"b"}))
    assert store.exists()


def test_a_damaged_file_hides_no_other(tmp_path: Path) -> None:
    """
    What is wrong with it takes the place of the settings.
    """
    one = files(tmp_path)
    one.put("b", GIVEN)
    (tmp_path / "nodes" / "c.conf").write_text("no setting\n")
    found = one.added()
    assert GIVEN == found["b"]
    assert "is not name=value" in str(found["c"])


@pytest.mark.parametrize("name", ["", ".b", "..", "b" * 201, "ö" * 34])
def test_a_name_that_no_file_can_have_is_refused(name: str) -> None:
    """
    Hidden files and long names.
    """
    with pytest.raises(InvalidError, match="a node of a host has a name"):
        name_as_file(name)


def test_an_end_at_any_moment_leaves_the_node_or_none(tmp_path: Path) -> None:
    """
    At each system call of adding and removing: the next process has what it was told,
    or what was there before, and can be told again.
    """
    for number in range(100):
        folder = tmp_path / f"add-{number}"
        files(folder)
        try:
            NodeFiles(folder / "nodes", killing(number)).put("b", GIVEN)
        except Killed:
            # There was no answer.
            pass
        else:
            assert number > 3
            break
        assert files(folder).added() in ({}, {"b": GIVEN})
        files(folder).put("b", GIVEN)
        assert {"b": GIVEN} == files(folder).added()
    else:
        raise AssertionError("it never ends")
    for number in range(100):
        folder = tmp_path / f"remove-{number}"
        files(folder).put("b", GIVEN)
        one = NodeFiles(folder / "nodes", killing(number))
        try:
            one.remove("b", None)
            one.finish("b", is_configured=False)
        except Killed:
            # As above.
            pass
        else:
            assert number > 5
            break
        assert files(folder).added() in ({}, {"b": GIVEN})
        files(folder).put("b", GIVEN)
        assert {"b": GIVEN} == files(folder).added()
    else:
        raise AssertionError("it never ends")
