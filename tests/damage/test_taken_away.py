"""
Each command that only reads, as another user: on a store that this user may read, and
with each file and folder taken away, one after the other. What the system does not open
is unknown and never bad: the command works, or says so in one line with exit code 3.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from damage.stores import Kept, make_stores
from lib.store.forked import as_user
from lib.store.stores import make_folder, remove_folder

from pystore.cli import main

NOBODY = 65534

COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "info": lambda root: ["info", str(root)],
    "verify": lambda root: ["verify", str(root)],
    "dump": lambda root: ["dump", str(root)],
    "recover --dry-run": lambda root: ["recover", "--dry-run", str(root)],
    "doctor": lambda root: ["doctor", str(root)],
    "epochs": lambda root: ["epochs", str(root)],
    "compare": lambda root: ["compare", str(root), str(root)],
}


@pytest.fixture(scope="module")
def stores() -> Iterator[list[Kept]]:
    """
    Stores with queues that every user may read: closed, killed, of another boot.
    """
    if os.getuid() != 0:
        pytest.skip("needs root")
    folder = make_folder()
    folder.chmod(0o755)
    made = [kept for kept in make_stores(folder) if kept.has_crc and kept.has_queues]
    for kept in made:
        _open_up(kept.root)
    yield made
    remove_folder(folder)


def _open_up(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.mark.parametrize("command", COMMANDS)
def test_what_another_user_may_not_read_is_unknown(
    command: str, stores: list[Kept]
) -> None:
    """
    No verdict of damage, one line of a reason, and no traceback.
    """
    objections = []
    for kept in stores:
        _open_up(kept.root)
        paths = [None, kept.root, *sorted(kept.root.rglob("*"))]
        # The parent imports what the child needs: it may not read Python's files.
        CliRunner().invoke(main, COMMANDS[command](kept.root))

        def judge(kept: Kept = kept) -> list[str]:
            return _judge(command, kept.root)

        for path in paths:
            name = "nothing" if path is None else path.relative_to(kept.root)
            with _taken_away(path):
                found = as_user(NOBODY, judge)
            objections += [f"{kept.state}, without {name}: {one}" for one in found]
    assert not objections, "\n".join(objections[:20])


@contextmanager
def _taken_away(path: Path | None) -> Iterator[None]:
    """
    A file or folder that only root may read.
    """
    if path is None:
        yield
        return
    mode = path.stat().st_mode
    path.chmod(0)
    yield
    path.chmod(mode)


def _judge(command: str, root: Path) -> list[str]:
    result = CliRunner().invoke(main, COMMANDS[command](root))
    text = f"exit code {result.exit_code}: {result.output[:300]!r}"
    found = []
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        found.append(f"{result.exception!r}")
    if result.exit_code not in (0, 3):
        found.append(text)
    if len(result.stderr.splitlines()) > 1:
        found.append(f"several lines: {text}")
    if result.exit_code == 3 and "ermission denied" not in result.output:
        found.append(f"no reason: {text}")
    if "amaged" in result.output or "orrupt" in result.output:
        found.append(f"calls it bad: {text}")
    return found
