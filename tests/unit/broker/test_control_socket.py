"""
The file of the control socket: its mode, and what may be replaced.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pystore.broker.control_socket import ControlSocket
from pystore.errors import BusyError, InvalidError, StorageError

LEAVES_ONE = """
import os, sys, socket
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
os._exit(0)
"""


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o177])
def test_only_the_owner_may_open_it(tmp_path: Path, mask: int) -> None:
    """
    Whatever mask the process has, which it keeps.
    """
    path = tmp_path / "s"
    before = os.umask(mask)
    try:
        made = ControlSocket(path)
        kept = os.umask(before)
    finally:
        os.umask(before)
    mode = path.lstat().st_mode
    made.close()

    assert stat.S_ISSOCK(mode)
    assert 0o600 == stat.S_IMODE(mode)
    assert mask == kept


def test_it_has_its_mode_when_it_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The system makes the file with it: there is no call later that narrows it.
    """
    path = tmp_path / "s"
    seen: list[int] = []
    listen = socket.socket.listen

    def look(one: socket.socket, backlog: int) -> None:
        # Between the file and the first connection that it could take.
        seen.append(stat.S_IMODE(path.lstat().st_mode))
        listen(one, backlog)

    monkeypatch.setattr(socket.socket, "listen", look)
    ControlSocket(path).close()

    assert [0o600] == seen


def test_the_file_of_a_dead_process_is_replaced(tmp_path: Path) -> None:
    """
    And removed at the end.
    """
    path = tmp_path / "s"
    subprocess.run([sys.executable, "-c", LEAVES_ONE, str(path)], check=True)
    assert path.exists()

    made = ControlSocket(path)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    made.close()
    made.close()
    assert not path.exists()


def test_the_socket_of_a_living_process_is_refused(tmp_path: Path) -> None:
    """
    It goes on to take connections.
    """
    path = tmp_path / "s"
    living = ControlSocket(path)
    with pytest.raises(BusyError, match="a living process listens on"):
        ControlSocket(path)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    living.close()


def test_a_process_that_accepts_too_slowly_is_alive(tmp_path: Path) -> None:
    """
    Its queue is full, so it does not even take the check.
    """
    path = tmp_path / "s"
    with (
        socket.socket(socket.AF_UNIX) as listener,
        socket.socket(socket.AF_UNIX) as one,
    ):
        listener.bind(str(path))
        listener.listen(0)
        one.connect(str(path))
        with pytest.raises(BusyError, match="a living process"):
            ControlSocket(path)


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_what_is_no_socket_stays(tmp_path: Path, kind: str) -> None:
    """
    Also a link, whatever it leads to.
    """
    path = tmp_path / "s"
    if kind == "file":
        path.write_text("mine")
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "nothing")
    with pytest.raises(InvalidError, match="is no socket"):
        ControlSocket(path)
    assert os.path.lexists(path)


def test_a_missing_directory_is_an_error_of_one_line(tmp_path: Path) -> None:
    """
    It says which setting to change.
    """
    with pytest.raises(StorageError, match="No such file or directory: set socket to"):
        ControlSocket(tmp_path / "no" / "s")


def test_two_processes_that_start_at_once_do_not_remove_each_others_socket(
    tmp_path: Path,
) -> None:
    """
    The check and the new file are one step to others in the directory.
    """
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    try:
        with pytest.raises(BusyError, match="at this moment: start again"):
            ControlSocket(tmp_path / "s")
    finally:
        os.close(folder)
    ControlSocket(tmp_path / "s").close()


def test_a_file_that_another_program_put_in_its_place_stays(tmp_path: Path) -> None:
    """
    Only the own file is removed.
    """
    path = tmp_path / "s"
    made = ControlSocket(path)
    path.unlink()
    path.write_text("other")
    made.close()

    assert "other" == path.read_text()
