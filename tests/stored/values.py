"""
One value, or more, of every public name that pickles.

Each is made anew by public constructors alone, or read from the closed store of this
directory, so that the same call gives equal values in any revision.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pystore
from pystore import errors

__all__ = ["public_values"]

_PLAIN_ERROR: dict[str, Any] = {"offset": 4096, "path": "commitlog/0"}


def public_values(store: Path) -> dict[str, Any]:
    """
    Returns the values by name; the part before a colon is that of ``__all__``.

    Args:
        store: the closed store, unpacked. It is only read; what is written goes beside
            it.
    """
    with pystore.CommitLog(store, mode="r") as log:
        first = log.min_offset
        read: dict[str, Any] = {
            "Record": log.read(first, body_crc=False),
            "Ends": log.ends,
            "RecoveryReport:of a reader": log.recovery,
            "RecoveryReport:of a loss": _loss(store),
            "RECORD_DTYPE:rows": next(iter(log.scan()))[:9].copy(),
            "Message:of a record": log.read(first).message(),
        }
    return {**_references(), **read, **_plain(), **_enums(), **_errors()} | {
        "Inspection": pystore.inspect(store)
    }


def _references() -> dict[str, Any]:
    """
    Classes and functions, of which a pickle holds where they are and no more.
    """
    # A name that is gone is missed by its own test, not by all of them.
    found = {name: getattr(pystore, name, None) for name in pystore.__all__}
    # Stored as Keeper, which is a deprecated name today.
    found["Keeper"] = found.get("MaintenanceThread") or found.get("Keeper")
    return {f"{name}:name": one for name, one in found.items() if callable(one)}


def _plain() -> dict[str, Any]:
    return {
        "Appended": pystore.Appended(4096, 4300, 7, 1_700_000_000_000, 2),
        "CutReport": pystore.CutReport(1234, 2),
        "EpochEntry": pystore.EpochEntry(3, 4096),
        "EpochTable": pystore.EpochTable.of([(1, 0), (3, 4096), (2**40, 2**50)]),
        "EpochTable:empty": pystore.EpochTable(),
        "Message": pystore.Message(
            "topic",
            b"body\0\xff",
            queue_id=3,
            keys=["a", "b"],
            tags="tag",
            properties={"name": "größe"},
            flag=7,
            reconsume_times=2,
            born_ms=1_700_000_000_000,
            prepared_offset=99,
            born_host="[::1]:1234",
        ),
        "POSITION_DTYPE": pystore.POSITION_DTYPE,
        "POSITION_DTYPE:rows": np.array([(0, 1), (99, -1)], pystore.POSITION_DTYPE),
        "RECORD_DTYPE": pystore.RECORD_DTYPE,
        "Record:made": pystore.Record.of(range(21), bytes(range(91))),
        "RecoveryReport": _report(),
        "Retention": pystore.Retention(1.5, 10**12),
        "Retention:default": pystore.Retention(),
        "Route": pystore.Route("topic", 3, 1_700_000_000_000, 8, 1, "10.0.0.1:80"),
    }


def _loss(store: Path) -> pystore.RecoveryReport:
    """
    What opening says of a damaged copy whose last records are given up.
    """
    copy = shutil.copytree(store, store.with_name("damaged-store"))
    newest = max((copy / "commitlog").iterdir())
    content = bytearray(newest.read_bytes())
    content[200] ^= 1
    newest.write_bytes(content)
    with pystore.CommitLog(copy, accept_loss=True) as log:
        return log.recovery


def _report() -> pystore.RecoveryReport:
    return pystore.RecoveryReport(
        is_new=False,
        is_clean=False,
        foreign=("epochFileCheckpoint was changed",),
        min_offset=1024,
        end_offset=9000,
        synced_end=8000,
        bound=8000,
        bound_name="synced end",
        cut_offset=9000,
        cut_bytes=24,
        cut_reason="a record is not whole",
        rule="A2",
        scanned_bytes=1000,
        records=10,
        unproved=1,
        segments_removed=1,
        bytes_zeroed=24,
        bytes_rewritten=1000,
        damage_offset=8500,
        stranded=(16384, 32768),
    )


def _enums() -> dict[str, Any]:
    several = pystore.Check.BODY | pystore.Check.TAGS | pystore.Check.ONCE
    return {
        "Check": several,
        "Check:none": pystore.Check(0),
        "Proof": pystore.Proof.BODY | pystore.Proof.HAS_PROPERTY,
        **{f"Check:{one.name}": one for one in pystore.Check},
        **{f"Proof:{one.name}": one for one in pystore.Proof},
        **{f"Stop:{one.name}": one for one in pystore.Stop},
    }


def _errors() -> dict[str, Any]:
    made = {}
    for name in errors.__all__:
        kind: Callable[..., Exception] = getattr(errors, name)
        if not isinstance(kind, type):
            continue  # a check that raises one of them
        made[name] = kind(f"{name}: a line")
        made[f"{name}:with a place"] = kind("a line", **_PLAIN_ERROR)
    refused = errors.FullError("3 of 9 records are there", path="store")
    refused.records_appended = 3
    return made | {"FullError:of columns": refused}
