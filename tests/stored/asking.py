"""
What ``pystore`` prints about stores and controllers, without what differs each time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

import pystore
from pystore.cli import main

__all__ = ["dump", "facts", "recovery", "run", "run_json", "serving", "set_facts"]

_PATIENCE_S = 60


def run(*words: str | Path) -> Result:
    """
    Runs a command in this process.
    """
    return CliRunner().invoke(main, [str(word) for word in words])


def run_json(*words: str | Path) -> dict[str, Any]:
    """
    Runs a command with ``--json``, and returns what it printed.
    """
    done = run(*words, "--json")
    assert done.stdout, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def facts(store: Path) -> dict[str, Any]:
    """
    Returns what commands say of a store, by command: without its path, and without
    how long a check of it took.
    """
    info, epochs = run_json("info", store), run_json("epochs", store)
    verified = run_json("verify", store)
    (checked,) = verified.pop("stores")
    for one in (info, epochs, checked):
        assert one.pop("store") == str(store)
    del checked["seconds"]
    return {"info": info, "epochs": epochs, "verify": verified | checked}


def recovery(store: Path) -> dict[str, Any]:
    """
    Opens a store for writing, closes it, and returns what the opening did.
    """
    with pystore.Store(store) as opened:
        report = asdict(opened.log.recovery)
    found: dict[str, Any] = json.loads(json.dumps(report))
    return found


def dump(store: Path) -> str:
    """
    Returns all records, one a line.
    """
    done = run("dump", store, "--bodies", "--digests")
    assert done.exit_code == 0, done.output
    return done.stdout


@contextmanager
def serving(store: Path) -> Iterator[str]:
    """
    Yields the address of a controller that leads.

    Args:
        store: directory of its records.
    """
    words = ("controller", "--listen", "127.0.0.1:0", "--store", str(store))
    process = subprocess.Popen(
        [sys.executable, "-m", "pystore", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        assert process.stdout is not None
        try:
            address = process.stdout.readline().split()[-1]
            end_s = time.monotonic() + _PATIENCE_S
            while not _leader(address):
                assert time.monotonic() < end_s, "no controller leads"
            yield address
        finally:
            process.terminate()


def _leader(address: str) -> str | None:
    found = run_json("admin", "getControllerMetaData", "-a", address)
    leader: str | None = found["controllerLeaderAddress"]
    return leader


def set_facts(address: str) -> dict[str, Any]:
    """
    Returns what a controller says of the set ``set``, by command: without the lease of
    its master, which runs out while it is asked for.
    """
    at = ("-a", address)
    described = run_json("admin", "describeBrokerSet", *at, "-bn", "set")
    del described["leaseMillis"]
    # What later releases tell.
    for name in ("recordBytes", "recordBytesMax", "copies", "wantedCopies"):
        del described[name]
    for one in described["brokers"]:
        for name in ("haAddress", "beginOffset", "filling"):
            del one[name]
    in_sync = run_json("admin", "getSyncStateSet", *at, "-b", "set")
    return {"describeBrokerSet": described, "getSyncStateSet": in_sync}
