"""
Each file of the C core calls and includes only what stands below it.

The calls are those of the compiled objects, read with ``nm``: an include says what a
file may call, an undefined symbol says what it does call.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

CSRC = Path(__file__).parents[2] / "csrc"

# Each C file by its name without the suffix; a header stands with its source file.
# The same table is in docs/architecture.md, and a test of that page compares them.
CORE_FLOORS = {
    "checksum_kinds": 0,
    "checksum_tables": 0,
    "env": 0,
    "error": 0,
    "private_copy": 0,
    "format": 0,
    "pystore": 0,
    "record_place": 0,
    "spin": 0,
    "text": 0,
    "topics": 0,
    "checksum_portable": 1,
    "checksum_x86": 1,
    "env_posix": 1,
    "listing": 1,
    "live": 1,
    "lock": 1,
    "properties": 1,
    "put_text": 1,
    "queues": 1,
    "reader": 1,
    "segment": 1,
    "checksum_arm": 2,
    "receive": 2,
    "segment_list": 2,
    "checksum": 3,
    "commit_queue": 3,
    "detach": 3,
    "keep": 3,
    "renew": 3,
    "waiters": 3,
    "log_state": 4,
    "page_words": 4,
    "parse": 4,
    "record": 4,
    "source": 4,
    "wire": 4,
    "record_batch": 5,
    "clock": 5,
    "scan": 5,
    "source_check": 5,
    "sync": 5,
    "columns": 6,
    "columns_properties": 6,
    "columns_put": 6,
    "json_lines": 6,
    "guard": 6,
    "tail": 6,
    "read": 7,
    "resync": 8,
    "writer": 7,
    "append": 8,
    "append_raw": 8,
    "begin_at": 8,
    "control": 8,
    "copy": 8,
    "cut": 8,
    "delete": 8,
    "ill": 8,
    "install": 8,
    "append_frame": 9,
    "flusher": 9,
    "open": 10,
}

# The builds differ in what they compile: a prefix of the tools, and flags.
BUILDS = {
    "this processor": ("", []),
    "portable": ("", ["-DPS_PORTABLE"]),
    "AArch64": ("aarch64-linux-gnu-", []),
}


@pytest.fixture(scope="module", params=BUILDS)
def calls(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, set[str]]:
    """
    The files that each source file calls, or whose data it uses, in one build.
    """
    prefix, flags = BUILDS[request.param]
    compiler = f"{prefix}gcc" if prefix else os.environ.get("CC", "gcc")
    if prefix and shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    folder = tmp_path_factory.mktemp("objects")

    def symbols(source: Path) -> list[list[str]]:
        made = folder / f"{source.stem}.o"
        command = [*compiler.split(), "-std=c11", "-D_GNU_SOURCE", *flags]
        subprocess.run([*command, "-c", source, "-o", made], check=True)
        listed = subprocess.run(
            [f"{prefix}nm", "-P", made], check=True, capture_output=True, text=True
        )
        return [line.split()[:2] for line in listed.stdout.splitlines()]

    sources = sorted(CSRC.glob("*.c"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(sources, pool.map(symbols, sources), strict=True))
    return _called({path.stem: found[path] for path in sources})


def _called(symbols: Mapping[str, list[list[str]]]) -> dict[str, set[str]]:
    """
    Returns the files that each file uses, from the symbols of their objects.

    Args:
        symbols: of each file, the names and their types as ``nm -P`` prints them.
    """
    named = {
        file: [(name.removeprefix("_"), kind) for name, kind in rows]
        for file, rows in symbols.items()
    }
    home = {
        name: file
        for file, rows in named.items()
        for name, kind in rows
        if name.startswith("ps_") and kind.isupper() and kind != "U"
    }
    return {
        file: {home[name] for name, kind in rows if kind == "U" and name in home}
        for file, rows in named.items()
    }


def _circle(calls: Mapping[str, set[str]]) -> list[str]:
    """
    Returns the files of one circle of calls; an empty list if there is none.
    """
    try:
        TopologicalSorter(calls).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle
    return []


def test_every_file_of_the_core_has_a_floor() -> None:
    """
    The table names the files that exist, and no others.
    """
    assert {path.stem for path in CSRC.glob("*.[ch]")} == CORE_FLOORS.keys()


def test_no_file_of_the_core_includes_from_a_floor_above() -> None:
    """
    A header is included from its own floor or from a floor above.
    """
    upward = [
        (path.name, header)
        for path in sorted(CSRC.glob("*.[ch]"))
        for header in re.findall(r'^#include "(\w+)\.h"', path.read_text(), re.M)
        if CORE_FLOORS[path.stem] < CORE_FLOORS[header]
    ]

    assert [] == upward


def test_a_file_of_the_core_calls_only_floors_below(
    calls: dict[str, set[str]],
) -> None:
    """
    No call goes up, and none stays on its floor between two files.
    """
    wrong = [
        (file, called)
        for file, files in calls.items()
        for called in sorted(files)
        if CORE_FLOORS[file] <= CORE_FLOORS[called]
    ]

    assert calls["append"]
    assert [] == wrong


def test_the_calls_between_the_files_of_the_core_have_no_circle(
    calls: dict[str, set[str]],
) -> None:
    """
    The files can be put in an order in which each calls only earlier ones.
    """
    assert [] == _circle(calls)


def test_a_circle_of_calls_is_found() -> None:
    """
    Two files that call each other are named, whatever else there is.
    """
    symbols = {
        "low": [["ps_low", "T"], ["memcpy", "U"]],
        "left": [["ps_left", "T"], ["ps_right", "U"], ["ps_low", "U"]],
        "right": [["ps_right", "T"], ["ps_left", "U"], ["ps_own", "t"]],
    }
    called = _called(symbols)

    assert {"low": set(), "left": {"right", "low"}, "right": {"left"}} == called
    assert {"left", "right"} == set(_circle(called))
