"""
Writes the stored files of this directory. It ran on revision 7f377bd, and runs there
alone: what it calls beside `pystore` has other names since.

With a checkout of 7f377bd that is built in place, and TESTS the ``tests`` of this one,
from the root of that checkout::

    PYTHONPATH=.:tests:TESTS SPARK_LOCAL_IP=127.0.0.1 python -m stored.write

It needs Java and the extra "spark".
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from stored.asking import dump, facts, recovery, run, serving, set_facts
from stored.placing import PLACES, place
from stored.unpacking import HERE, pack, unpack
from stored.values import public_values

import pystore

SEGMENT = 8192
QUEUE_FILE = 200
HALF = 100
"""Records in the store of the jobs when they ran for the first time."""

BATCH = 40
EXPORTED = "offset,queueId,queueOffset,storeTimestamp,keys,properties,body"
"""All that needs no path: nothing can be replaced in Parquet."""

SIZES = ("--log-file-bytes", "4000", "--queue-file-bytes", "1656")


def fill(log: pystore.CommitLog, first: int, count: int) -> None:
    """
    Appends records of three topics; some have no body, some no keys.
    """
    for number in range(first, first + count):
        message = pystore.Message(
            f"T{number % 3}",
            b"" if number % 17 == 0 else b"%d " % number * (number % 100),
            queue_id=number % 2,
            keys=None if number % 29 == 0 else f"key {number % 40}",
            tags="even" if number % 2 == 0 else None,
            properties={"number": str(number)},
            born_ms=1_700_000_000_000 + number,
        )
        log.append(message)


def _open(root: Path) -> pystore.Store:
    return pystore.Store(root, segment_size=SEGMENT, queue_file_bytes=QUEUE_FILE)


def _identity(log: pystore.CommitLog, broker_id: int, *, confirmed: bool) -> None:
    exports = import_module("pystore.exports")
    identity = exports.BrokerIdentity("cluster", "set", broker_id)
    store = import_module("pystore.controller.identity_store").IdentityStore(log.writer)
    address = f"127.0.0.1:{10_000 + broker_id};1"
    store.write_temporary(exports.TemporaryIdentity(identity, address))
    if confirmed:
        store.confirm(identity)


def write_closed(root: Path) -> None:
    """
    A store with epochs, a cut, an identity and seals, closed.
    """
    with _open(root) as store:
        _identity(store.log, 3, confirmed=True)
        store.log.begin_epoch(1)
        fill(store.log, 0, 80)
        store.log.begin_epoch(4)
        fill(store.log, 80, 40)
        end = store.log.end_offset
        fill(store.log, 120, 10)
        store.cut(end)
        while store.keep():
            pass


def write_crashed(root: Path) -> None:
    """
    The same of a writer that was killed: a part is synced, a part is not.
    """
    child = os.fork()
    if not child:
        store = _open(root)
        _identity(store.log, 5, confirmed=False)
        store.log.begin_epoch(2)
        fill(store.log, 0, 80)
        while store.keep():
            pass
        store.log.begin_epoch(7)
        fill(store.log, 80, 30)
        store.dispatch()
        fill(store.log, 110, 10)
        os.kill(os.getpid(), signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert status == signal.SIGKILL, status


def facts_by_place(name: str, folder: Path) -> dict[str, Any]:
    """
    What commands say of an archived store in each of the places, and what opening does.
    """
    found = {}
    for number, where in enumerate(PLACES):
        store = place(unpack(name, folder / f"{name}-{number}"), where)
        found[where] = {**facts(store), "recovery": recovery(store)}
    return found


def write_pickles(folder: Path) -> None:
    """
    The public values, by name, each a pickle of its own.
    """
    values = public_values(place(unpack("closed-store", folder), "a copy"))
    for protocol in (2, pickle.HIGHEST_PROTOCOL):
        made = {name: pickle.dumps(one, protocol) for name, one in values.items()}
        path = HERE / f"public-values.protocol-{protocol}.pickle.gz"
        path.write_bytes(gzip.compress(pickle.dumps(made, protocol), mtime=0))


def follow(folder: Path, name: str, *, fails_at: int | None = None) -> int:
    """
    Runs a stream over what the store holds now; returns how many records it read.
    """
    session = import_module("pyspark.sql").SparkSession.active()
    numbers = []

    def take(batch: Any, number: int) -> None:
        if number == fails_at:
            raise RuntimeError("the third batch fails")
        numbers.append(batch.count())

    reader = session.readStream.format("pystore")
    reader = reader.option("maxRecordsPerTrigger", str(BATCH))
    writer = reader.load(str(folder / "jobs-store")).writeStream.foreachBatch(take)
    writer = writer.option("checkpointLocation", str(folder / name))
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination(120)
    except import_module("pyspark.errors").StreamingQueryException:
        assert fails_at is not None
    return sum(numbers)


def write_jobs(folder: Path) -> dict[str, Any]:
    """
    A store of which streams and an export read the first half; then compactions.
    """
    store = folder / "jobs-store"
    with _open(store) as opened:
        fill(opened.log, 0, HALF)
    builder = import_module("pyspark.sql").SparkSession.builder.master("local[2]")
    builder = builder.config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    import_module("pystore.spark").register(session)
    found = {
        "half": HALF,
        "finished": follow(folder, "stream-finished"),
        "failed": follow(folder, "stream-failed", fails_at=2),
    }
    into = ("--into", folder / "export")
    done = run("spark", "export", store, *into, "--columns", EXPORTED)
    assert not done.exit_code, done.output
    session.stop()
    with _open(store) as opened:
        fill(opened.log, HALF, HALF)
        while opened.keep():
            pass
    write_compactions(folder, store)
    for name in ("jobs-store", "stream-finished", "stream-failed", "export"):
        pack(folder, name)
    with pystore.CommitLog(store, mode="r") as log:
        rows = [row for some in log.scan() for row in some["offset"].tolist()]
    return found | {"offsets": rows}


def write_compactions(folder: Path, store: Path) -> None:
    """
    One that was killed while it copied, and one that was not.
    """
    killer: Any = import_module("compaction_kill")
    hook = folder / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text("import compaction_kill as k\nk.arm()\n")
    environment = os.environ | {"PYTHONPATH": ":".join([str(hook), *sys.path])}
    into = folder / "compaction-unfinished"
    point = f"driver os.mkdir /copied/draft- 3 {folder}/ledger"
    words = [sys.executable, killer.__file__, str(store), str(into), "local[1]"]
    killed = subprocess.run(
        words, env=environment | {killer.KILL: point}, capture_output=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()[-2000:]
    (work,) = (into / "compacting").iterdir()
    print("unfinished:", sorted(path.name for path in (work / "copied").iterdir()))

    whole = ("--into", folder / "compaction-finished", "--master", "local[1]")
    done = run("spark", "compact", store, *SIZES, *whole)
    assert not done.exit_code, done.output
    for name in ("compaction-unfinished", "compaction-finished"):
        pack(folder, name)


async def _enlist(address: str) -> None:
    peers = import_module("serving_controller")
    client = import_module("pystore.remoting.client")
    async with client.RemotingClient() as administrator:
        at = peers.Running(None, address, [], administrator, [])
        brokers = [peers.SpokenBroker(at, number) for number in (1, 2, 3)]
        for broker in brokers:
            await broker.join()
        first, second, third = brokers
        await first.elect()
        await first.alter(frozenset({first.member, second.member}), 1, 1)
        first.end, second.end, third.end = 1000, 1000, 400
        for broker in brokers:
            await broker.beat(epoch=1)
        for broker in brokers:
            await broker.die()


def write_controller(folder: Path) -> dict[str, Any]:
    """
    The records of a controller with a set of three brokers, two of them in sync.
    """
    store = folder / "controller"
    with serving(store) as address:
        asyncio.run(_enlist(address))
    pack(folder, "controller")
    with serving(store) as address:
        return set_facts(address)


def main() -> None:
    """
    Writes everything anew.
    """
    print("pystore:", pystore.__file__)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    expected: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_closed(folder / "closed-store")
        write_crashed(folder / "crashed-store")
        for name in ("closed-store", "crashed-store"):
            pack(folder, name)
            text = dump(folder / name)
            (HERE / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
            expected[name] = facts_by_place(name, folder)
        write_pickles(folder / "pickles")
        expected["controller"] = write_controller(folder)
        expected["jobs"] = write_jobs(folder)
    text = json.dumps(expected, indent=1, sort_keys=True)
    (HERE / "expected.json").write_text(f"{text}\n")


if __name__ == "__main__":
    main()
