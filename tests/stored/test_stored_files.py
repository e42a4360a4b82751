"""
Files that revision 7f377bd wrote open as they did there: pickles, stores, the records
of a controller.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import pickle
import pickletools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stored.asking import dump, facts, recovery, run_json, serving, set_facts
from stored.placing import PLACES, place
from stored.unpacking import HERE, unpack
from stored.values import public_values

import pystore

EXPECTED: dict[str, Any] = json.loads((HERE / "expected.json").read_text())
STORES = ("closed-store", "crashed-store")
PROTOCOLS = (2, 5)
STABLE_MODULES = {"pystore", "pystore.errors", "pystore.stored_names"}
RENAMED = {"Keeper": "MaintenanceThread"}
LATER = {"Health", "IllRange", "arrow_reader"}
"""Public names of later builds than the stored pickles."""

LATER_FIELDS = {"published_end", "keeps_pages", "is_copy", "is_lossy"}
"""Fields of `RecoveryReport` that later builds have, for a controller (B2, A15)."""

RULES_CHANGED = {"RecoveryReport:of a loss", "Inspection", "Ends"}
"""Values that an opening makes: another rule names the bound today (A16), and a reader
knows the generation of cuts also where the live page does not bind it."""


def stored_pickles(protocol: int) -> dict[str, bytes]:
    """
    The pickles of the public values, by name.
    """
    content = (HERE / f"public-values.protocol-{protocol}.pickle.gz").read_bytes()
    found: dict[str, bytes] = pickle.loads(gzip.decompress(content))
    return found


STORED = {protocol: stored_pickles(protocol) for protocol in PROTOCOLS}
NAMES = sorted(STORED[2])


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """
    The public values, made anew.
    """
    folder = tmp_path_factory.mktemp("values")
    return public_values(place(unpack("closed-store", folder), "a copy"))


@pytest.fixture(params=STORES)
def name(request: pytest.FixtureRequest) -> str:
    """
    The name of a stored store.
    """
    found: str = request.param
    return found


@pytest.fixture(params=PLACES)
def where(request: pytest.FixtureRequest) -> str:
    """
    Where and when the store stands.
    """
    found: str = request.param
    return found


@pytest.fixture
def store(name: str, where: str, tmp_path: Path) -> Path:
    """
    A stored store, unpacked there.
    """
    return place(unpack(name, tmp_path), where)


@pytest.fixture
def expected(name: str, where: str) -> dict[str, Any]:
    """
    What 7f377bd said of it there.
    """
    found: dict[str, Any] = EXPECTED[name][where]
    return found


def lines(name: str) -> str:
    """
    What 7f377bd dumped of a store.
    """
    return gzip.decompress((HERE / f"{name}.jsonl.gz").read_bytes()).decode()


def parts(value: object) -> object:
    """
    A value taken apart, so that two of them can be compared: errors have no equality,
    arrays have one for each element, and of a path only the last name is the same.
    """
    found: object = value
    if isinstance(value, Exception):
        found = value.args, vars(value)
    elif isinstance(value, np.ndarray):
        found = value.dtype, value.tolist()
    elif isinstance(value, Path):
        found = value.name
    elif isinstance(value, dict):
        found = {key: parts(one) for key, one in value.items()}
    elif isinstance(value, tuple):
        found = [parts(one) for one in value]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [one.name for one in dataclasses.fields(value)]
        found = {name: parts(getattr(value, name)) for name in names}
    return type(value), found


def our_globals(pickled: bytes) -> Iterator[tuple[str, str]]:
    """
    Every module and name of ours that a pickle imports.
    """
    texts: list[str] = []
    memo: dict[int, str] = {}
    for operation, argument, _ in pickletools.genops(pickled):
        module, name = "", ""
        if operation.name == "GLOBAL":
            module, name = str(argument).split(" ")
        elif operation.name == "STACK_GLOBAL":
            module, name = texts[-2:]
        elif operation.name == "MEMOIZE":
            memo[len(memo)] = texts[-1] if texts else ""
        elif operation.name in ("BINGET", "LONG_BINGET"):
            texts.append(memo.get(int(str(argument)), ""))
        elif isinstance(argument, str):
            texts.append(argument)
        if module.split(".")[0] == "pystore":
            yield module, name


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("value", NAMES)
def test_a_stored_pickle_is_the_value_that_is_made_today(
    protocol: int, value: str, values: dict[str, Any]
) -> None:
    """
    Whatever module its class was in when it was pickled.
    """
    loaded = pickle.loads(STORED[protocol][value])

    if value in RULES_CHANGED:
        assert type(values[value]) is type(loaded)
        assert repr(loaded)
    else:
        assert parts(values[value]) == parts(loaded)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("value", NAMES)
def test_a_new_pickle_names_modules_that_do_not_move(
    protocol: int, value: str, values: dict[str, Any]
) -> None:
    """
    So that it opens after the next move of a module, too.
    """
    pickled = pickle.dumps(values[value], protocol)

    private = {one for one in our_globals(pickled) if one[0] not in STABLE_MODULES}
    assert set() == private


def test_a_stored_store_is_described_as_before(
    store: Path, expected: dict[str, Any]
) -> None:
    """
    Its ends, epochs, identity, how it was left, and whether it is whole.
    """
    found = facts(store)

    for command in ("info", "epochs", "verify"):
        # Later builds may say more, but what was said stays.
        same = {key: found[command].get(key) for key in expected[command]}
        assert expected[command] == same, command


def test_the_records_of_a_stored_store_are_dumped_as_before(
    store: Path, name: str
) -> None:
    """
    Line by line, before the store is opened for writing and behind it. The digests
    need an option today.
    """
    before = dump(store)
    recovery(store)

    wanted = [json.loads(line) for line in lines(name).splitlines()]
    assert wanted == [json.loads(line) for line in before.splitlines()]
    assert before == dump(store)


def test_opening_a_stored_store_decides_as_before(
    store: Path, expected: dict[str, Any]
) -> None:
    """
    By the same rules; the epochs and the identity stay. In a copy the stored end is
    the bound today (A16), and an unclean opening is a new generation of cuts.
    """
    found = recovery(store)

    other = {"bound", "bound_name"} if found["foreign"] else set()
    other |= LATER_FIELDS
    assert {
        name: expected["recovery"][name] for name in found if name not in other
    } == {name: value for name, value in found.items() if name not in other}
    info = run_json("info", store)
    assert "closed" == info["state"]
    for key in ("endOffset", "epochs", "identity"):
        assert expected["info"][key] == info[key]


def test_a_stored_store_is_read_by_queue_and_appended_to(
    store: Path, name: str
) -> None:
    """
    The next record of a queue gets the next queue offset, the next epoch begins.
    """
    records = [json.loads(line) for line in lines(name).splitlines()]
    with pystore.Store(store) as opened:
        for record in records:
            at = (record["topic"], record["queueId"], record["queueOffset"])
            assert record["offset"] == opened.read(*at).offset
        last = records[-1]
        epoch = opened.log.epochs.last_epoch
        opened.log.begin_epoch(epoch + 1)
        message = pystore.Message(last["topic"], b"new", queue_id=last["queueId"])
        appended = opened.log.append(message)

        assert last["queueOffset"] + 1 == appended.queue_offset
        assert last["offset"] + last["size"] == appended.offset
        assert [(epoch + 1, appended.offset)] == opened.log.epochs.pairs()[-1:]


def test_a_stored_controller_describes_the_same_set(tmp_path: Path) -> None:
    """
    Its master, epochs, members and SyncStateSet.
    """
    with serving(unpack("controller", tmp_path)) as address:
        assert EXPECTED["controller"] == set_facts(address)


def test_the_stored_pickles_are_of_every_public_value() -> None:
    """
    Of each name at least one, and for both protocols of the same values.
    """
    kept = {RENAMED.get(one, one) for one in (name.split(":")[0] for name in NAMES)}

    assert set(STORED[2]) == set(STORED[5])
    assert LATER == set(pystore.__all__) - kept


def test_no_checksum_of_hadoop_belongs_to_a_file_that_is_changed(
    tmp_path: Path,
) -> None:
    """
    Unpacking writes paths into files; a checksum of the file before would be wrong.
    """
    for name in ("stream-finished", "stream-failed", "export"):
        for path in unpack(name, tmp_path).rglob(".*.crc"):
            summed = path.with_name(path.stem[1:])
            assert str(tmp_path).encode() not in summed.read_bytes()
