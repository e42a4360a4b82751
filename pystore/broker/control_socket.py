"""
The file of the control socket: made with mode 0600, and replaced only if it is dead.

Its mode is the only protection: each user who may open it may append. So it has the
mode from its first moment on, not from a later call. A file that a killed process left
answers no connection and is replaced; between the check and the new file, the lock of
its directory keeps every other starting process out.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pystore.errors import BusyError, InvalidError, StorageError

__all__ = ["ControlSocket"]

_BACKLOG = 128
_MASK = 0o177  # leaves reading and writing to the owner
_PROBE_S = 1.0


class ControlSocket:
    """
    A listening Unix socket and its file, until it is closed.

    The mask of the process is changed for a moment: call it before threads that create
    files are started.

    Args:
        path: at most `pystore.broker.settings.SOCKET_PATH_BYTES_MAX` bytes.

    Attributes:
        listener: the socket, which does not block.

    Raises:
        BusyError: a living process listens there, or another one is starting.
        InvalidError: something else has the name.
        StorageError: the system refused.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _alone_in(path):
                _remove_dead(path)
                _bind(self.listener, path)
                self._file = _identity(path)
            self.listener.settimeout(0)
        except OSError as error:
            # The directory is missing, or not ours to write to.
            self.listener.close()
            if isinstance(error, StorageError):
                raise
            raise StorageError(
                f"the control socket {path} cannot be made: {error.strerror}: set "
                "socket to a path in a directory of this user",
                errno=error.errno,
                path=str(path),
            ) from error
        except BaseException:
            # Also Ctrl-C: the socket is closed.
            self.listener.close()
            raise

    def close(self) -> None:
        """
        Stops listening and removes the file, if it is still this one. Idempotent.
        """
        if self._file is not None and _identity(self._path) == self._file:
            # Another program may remove it at the same moment.
            with suppress(OSError):
                self._path.unlink()
        self._file = None
        self.listener.close()


@contextmanager
def _alone_in(path: Path) -> Iterator[None]:
    """
    Inside the block no other starting process checks or makes a socket beside it.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            # Other brokers hold it for a moment only.
            raise BusyError(
                f"another process makes a socket in {path.parent} at this moment: "
                "start again",
                path=str(path),
            ) from error
        yield
    finally:
        os.close(folder)


def _remove_dead(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        # The usual case.
        return
    if not stat.S_ISSOCK(mode):
        raise InvalidError(
            f"{path} is no socket: move it away, or set socket to another path",
            path=str(path),
        )
    if _is_alive(path):
        raise BusyError(
            f"a living process listens on {path}: stop it, or set socket to another "
            "path",
            path=str(path),
        )
    path.unlink()


def _is_alive(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_S)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            # No process listens there any more.
            return False
        except (TimeoutError, BlockingIOError):
            # It has more connections waiting than it accepts.
            return True
    return True


def _bind(listener: socket.socket, path: Path) -> None:
    before = os.umask(_MASK)
    try:
        listener.bind(os.fspath(path))
    finally:
        os.umask(before)
    listener.listen(_BACKLOG)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        # Removed by another program.
        return None
    return status.st_dev, status.st_ino
