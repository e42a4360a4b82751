"""
For each kind of bad input one line says what is wrong, where, and what to do.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from lib.command_line import (
    PYSTORE,
    SEGMENT,
    make_store,
    overwrite,
    run_process,
    segment_file,
)

Spoil = Callable[[Path], object]

APPEND = ("append", "--topic", "T")
COMMANDS = {
    "append": APPEND,
    "dump": ("dump",),
    "info": ("info",),
    "recover": ("recover",),
    "epochs": ("epochs",),
}


def error_of(*arguments: str | Path, stdin: bytes = b"a\n") -> str:
    """
    Runs a command that fails, and returns the one line that it prints.
    """
    found = run_process(*arguments, stdin=stdin)
    text = found.stderr.decode()
    assert 3 == found.returncode, text
    assert b"" == found.stdout
    (line,) = text.splitlines()
    assert line.startswith("pystore: ")
    return line.removeprefix("pystore: ")


def shorten(root: Path) -> None:
    """
    Leaves half of the last segment's file.
    """
    last = max((root / "commitlog").iterdir())
    os.truncate(last, SEGMENT // 2)


STRUCTURE: dict[str, tuple[Spoil, str]] = {
    "a segment of a wrong size": (shorten, r"32768 bytes, a segment here has 65536"),
    "a non-numeric file name": (
        lambda root: (root / "commitlog" / "notes.txt").write_text("x"),
        r"commitlog/notes\.txt: ",
    ),
    "a gap between segments": (
        lambda root: segment_file(root, SEGMENT).unlink(),
        r"commitlog: segment 0+65536 is missing before 0+131072",
    ),
}


READ = ("dump", "info")
"""The commands that read what is left of a log."""


@pytest.mark.parametrize(
    ("what", "command"),
    [
        (what, command)
        for what in STRUCTURE
        for command in COMMANDS
        if what == "a non-numeric file name" or command not in READ
    ],
)
def test_every_command_refuses_files_that_are_not_a_log(
    what: str, command: str, tmp_path: Path
) -> None:
    """
    The error names the file. Those that read go on without a segment.
    """
    root = make_store(tmp_path / "s")
    spoil, words = STRUCTURE[what]
    spoil(root)
    name, *options = COMMANDS[command]

    assert re.search(words, error_of(name, root, *options))


NOT_STORES: dict[str, tuple[Spoil, str]] = {
    "nothing": (lambda root: root, r"no such directory: check the path"),
    "a file": (Path.touch, r"not a directory: give the root of a store"),
    "another directory": (Path.mkdir, r"not a store: it has no commitlog/: give the "),
}


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (command, what)
        for command in [*COMMANDS, "verify"]
        for what in NOT_STORES
        # An append creates a new store there.
        if command != "append" or what == "a file"
    ],
)
def test_every_command_refuses_a_path_that_is_not_a_store(
    command: str, what: str, tmp_path: Path
) -> None:
    """
    Every command prints the same error.
    """
    root = tmp_path / "s"
    spoil, words = NOT_STORES[what]
    spoil(root)
    name, *options = COMMANDS.get(command, (command,))

    assert re.search(words, error_of(name, root, *options))


SMALL_FILES = {
    "checkpoint": b"\x00" * 7,
    "epochFileCheckpoint": b"123-2\n1-",
    "brokerIdentity": b"c#b",
    "meta/lmdb/data.mdb": b"garbage",
    "meta/live": b"",
}


@pytest.mark.parametrize("name", SMALL_FILES)
def test_an_unreadable_small_file_is_named(name: str, tmp_path: Path) -> None:
    """
    A half-written file or garbage does not count as empty.
    """
    root = make_store(tmp_path / "s")
    path = root / name
    path.write_bytes(SMALL_FILES[name])

    for command in (("info",), APPEND):
        assert name in error_of(command[0], root, *command[1:])


def test_a_database_that_is_cut_short_or_empty_is_refused(tmp_path: Path) -> None:
    """
    It is neither the result of a crash nor a new store.
    """
    for size in (0, 4096, 10000):
        root = make_store(tmp_path / str(size))
        os.truncate(root / "meta" / "lmdb" / "data.mdb", size)

        assert "data.mdb" in error_of("info", root)
        assert "data.mdb" in error_of("append", root, "--topic", "T")


def test_damage_below_the_bound_refuses_an_append(tmp_path: Path) -> None:
    """
    The error has the offset and the possible actions.
    """
    root = tmp_path / "s"
    code = "import os, sys; from pystore.store.commit_log import CommitLog; "
    code += "from pystore.message.columns import gather_columns; "
    code += "log = CommitLog(sys.argv[1]); "
    code += "log.append_columns(gather_columns('t', [b'body'] * 9)); os._exit(0)"
    subprocess.run([sys.executable, "-c", code, str(root)], check=True)
    overwrite(segment_file(root), 28, bytes(8)[:7] + b"\x05")  # claims offset 5

    line = error_of("append", root, "--topic", "T")
    assert "damage at offset 0" in line
    assert "pystore recover --accept-loss" in line


def test_an_empty_last_file_as_a_crash_leaves_it_is_accepted(tmp_path: Path) -> None:
    """
    It is not damage.
    """
    root = make_store(tmp_path / "s")
    last = int(max((root / "commitlog").iterdir()).name)
    segment_file(root, last + SEGMENT).touch()

    assert 0 == run_process("verify", root).returncode
    assert 0 == run_process("append", root, "--topic", "T", stdin=b"a\n").returncode


def test_a_lock_of_a_java_process_refuses_writers(tmp_path: Path) -> None:
    """
    It is a POSIX record lock on byte 0, as Java takes it; readers ignore it.
    """
    root = make_store(tmp_path / "s")
    with (root / "lock").open("r+b") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)

        assert f"(pid {os.getpid()})" in error_of("append", root, "--topic", "T")
        assert f"(pid {os.getpid()})" in error_of("recover", root)
        assert 0 == run_process("verify", root).returncode


def in_small_file_system(folder: Path, script: str, size: str = "4m") -> list[str]:
    """
    Runs a shell script in a file system of its own, and returns what it printed.

    ``$P`` runs the command line, ``$PYTHON`` is Python.
    """
    folder.mkdir()
    mount = f"mount -t tmpfs -o size={size} none {folder} && cd {folder} || exit 77\n"
    if os.getuid() or shutil.which("unshare") is None:
        pytest.skip("mounting a file system needs root and unshare")
    variables = {"PYTHON": sys.executable, "P": " ".join(PYSTORE)}
    found = subprocess.run(
        ["unshare", "-m", "sh", "-c", mount + script],
        capture_output=True,
        check=False,
        env=os.environ | variables | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    if found.returncode == 77:
        pytest.skip("no file system can be mounted here")
    return (found.stdout + found.stderr).decode().splitlines()


NEW_STORE = """
$PYTHON -c "import pathlib, lib.command_line as c; c.make_store(pathlib.Path('s'), 1)"
"""

FULL_DISK = """
head -c 1000000 /dev/zero > filler
yes "a line of some length" | head -c 4000000 | $P append s --topic T --json
echo "code $?"
$P verify s
rm filler
echo more | $P append s --topic T --json
"""


def test_a_full_disk_stops_an_append_and_with_space_the_next_one_succeeds(
    tmp_path: Path,
) -> None:
    """
    Only the acknowledged records are stored; when there is space again, the next
    append continues after them.
    """
    first, code, verdict, second, error = in_small_file_system(
        tmp_path / "small", NEW_STORE + FULL_DISK
    )

    records = json.loads(first)["records"]
    assert "code 3" == code
    assert 1000 < records < 4_000_000 / 22
    assert verdict.startswith(f"s: whole: {records + 1:,} records")
    assert f"pystore: line {records + 1}: " in error
    assert "No space left on device" in error
    assert (1, None) == (json.loads(second)["records"], json.loads(second)["error"])
    assert json.loads(first)["endOffset"] <= json.loads(second)["firstOffset"]


READ_ONLY = """
echo line | $P append s --topic T > /dev/null
mount -o remount,ro .
for command in "dump s" "info s" "verify s" "epochs s" "recover s --dry-run"
do $P $command > /dev/null; echo "code $?"; done
echo more | $P append s --topic T; echo "code $?"
"""


def test_a_read_only_directory_can_be_read_but_not_written(tmp_path: Path) -> None:
    """
    The line has the error of the system.
    """
    *codes, error = in_small_file_system(tmp_path / "small", NEW_STORE + READ_ONLY)

    assert ["code 0"] * 5 + ["code 3"] == codes
    assert "Read-only file system" in error
    assert "s/" in error


def test_an_empty_path_is_wrong_usage_of_every_command(tmp_path: Path) -> None:
    """
    ``pystore append "$STORE" --topic t`` with an unset variable must not make a store
    in the current directory.
    """
    for words in (
        ["append", "", "--topic", "t"],
        ["compact", ""],
        ["demo", "--directory", ""],
        ["dump", ""],
        ["epochs", ""],
        ["epochs", str(tmp_path), "--against", ""],
        ["info", ""],
        ["recover", ""],
        ["recover", str(tmp_path), "--save-to", ""],
        ["replica", "", "--master", "127.0.0.1:1", "--learner"],
        ["verify", ""],
        ["spark", "compact", ""],
        ["spark", "export", ""],
        ["spark", "verify", ""],
    ):
        done = subprocess.run(
            [*PYSTORE, *words], cwd=tmp_path, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert 2 == done.returncode, (words, done.stderr)
        if words[0] != "compact" and "Missing" not in done.stderr:
            known = "the path is empty" in done.stderr or "No such" in done.stderr
            assert known, (words, done.stderr)

    assert [] == list(tmp_path.iterdir())


def test_a_closed_stdout_is_no_defect(tmp_path: Path) -> None:
    """
    ``>&-``: the command works, and its exit code is that of its work.
    """
    root = tmp_path / "s"
    make_store(root)
    command = " ".join([*PYSTORE[:1], "-m", "pystore", "info", str(root), ">&-"])
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, check=False
    )

    assert (0, "") == (done.returncode, done.stderr)


def test_a_path_with_an_umlaut_works_in_every_locale(tmp_path: Path) -> None:
    """
    A path is bytes; the encoding of the terminal does not matter.
    """
    root = tmp_path / "größe"
    make_store(root)
    for words in (["info"], ["verify"], ["recover"], ["append", "--topic", "t"]):
        command = [*PYSTORE, *words, str(root)]
        environment = os.environ | {
            "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0",
        }  # fmt: skip
        done = subprocess.run(
            command, env=environment, input=b"line\n", capture_output=True, check=False
        )
        assert (0, b"") == (done.returncode, done.stderr), words


@pytest.mark.parametrize("command", ["verify", "info", "doctor", "recover"])
@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "JSON"])
def test_a_name_that_is_no_utf_8_is_printed(
    tmp_path: Path, command: str, options: tuple[str, ...]
) -> None:
    """
    JSON has the escape that Python makes of such a byte; text has the same.
    """
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/s\xf4"))
    make_store(root)
    dry = ("--dry-run",) if command == "recover" else ()
    found = run_process(command, root, *dry, *options)

    assert (0, b"") == (found.returncode, found.stderr)
    assert b"s\\udcf4" in found.stdout
    if options:
        told = json.loads(found.stdout)
        assert str(root) == told.get("stores", [told])[0]["store"]
