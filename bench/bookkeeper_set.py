"""
Apache BookKeeper's AutoRecovery on loopback, as a rival of a fill.

ZooKeeper, bookies, the AutoRecovery process and a client (`LedgerTool.java`) are
processes of their own. The jars come from Maven Central once.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from contest import Contender, Timed
from interop.jvm import missing_tools
from lib.free_ports import free_port
from lib.remoting import zookeeper_server
from lib.remoting.zookeeper_server import ZookeeperServer

__all__ = ["Ledgers", "auto_recovery", "lacking"]

_HERE = Path(__file__).parent / "bookkeeper"
_TARGET = _HERE / "target"
_CLIENT = "LedgerTool"
_FETCH_S = 300
_START_S = 120

# An expert's choice for a bulk copy; the rest is BookKeeper's default: a bookie syncs
# its journal before it acknowledges an entry, and ledgers are not read back.
_BOTH = {
    # One after the other, a worker copies batches of so many entries; within a batch
    # all at once. The default of 10 is for clusters that serve. No limit of the rate is
    # the default.
    "rereplicationEntryBatchSize": 512,
    "lostBookieRecoveryDelay": 0,
    # A full queue of the disk must not look like a lost bookie.
    "addEntryTimeoutSec": 60,
    "readEntryTimeoutSec": 60,
    # The check of all ledgers once a week would begin at the start.
    "auditorPeriodicCheckInterval": 0,
    "allowLoopback": "true",
    "advertisedAddress": "127.0.0.1",
    "httpServerEnabled": "false",
    "zkTimeout": 10_000,
}
_BOOKIE = {
    # Whole writes of the journal instead of the default of 64 KiB.
    "journalWriteBufferSizeKB": 1024,
    # Faster here than the default, which sorts entries in memory.
    "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
    "dbStorage_writeCacheMaxSizeMb": 512,
    "dbStorage_readAheadCacheMaxSizeMb": 256,
}
_JAVA = ("java", "-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=2g")


@dataclass(frozen=True)
class Ledgers:
    """
    What is lost and copied.

    Attributes:
        count: of ledgers.
        entries: of each.
        entry_bytes: the body of an entry.
    """

    count: int
    entries: int
    entry_bytes: int

    @property
    def bytes(self) -> int:
        """
        All bodies.
        """
        return self.count * self.entries * self.entry_bytes


def lacking() -> str | None:
    """
    Fetches the jars and compiles the client if that was not done.

    Returns:
        What this machine lacks for the rival, or ``None``.
    """
    if tools := missing_tools():
        return f"not installed: {', '.join(tools)}"
    if reason := zookeeper_server.missing():
        return reason
    _TARGET.mkdir(exist_ok=True)
    with (_TARGET / "fetch.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        source, made = _HERE / "src/LedgerTool.java", _TARGET / "classes"
        tool = made / "LedgerTool.class"
        needs = max(path.stat().st_mtime for path in (source, _HERE / "pom.xml"))
        if tool.exists() and tool.stat().st_mtime > needs:
            return None
        fetch = ("mvn", "-q", "-B", "-f", _HERE / "pom.xml")
        compiler = ("javac", "-d", made, "-cp", f"{_TARGET}/lib/*", source)
        for command in ((*fetch, "dependency:copy-dependencies"), compiler):
            try:
                subprocess.run(command, check=True, timeout=_FETCH_S)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                # Mostly a machine that does not reach Maven Central.
                return f"BookKeeper cannot be had: {error}"
    return None


class _Process:
    """
    A class of BookKeeper, or the client, in a JVM.
    """

    def __init__(self, folder: Path, name: str, *words: str | Path) -> None:
        folder.mkdir(exist_ok=True)
        self._said = folder / f"{name.rpartition('.')[2]}.log"
        paths = f"{_TARGET}/classes:{_TARGET}/lib/*"
        with self._said.open("wb") as said:
            # What only logs would stop at a pipe that nothing reads.
            output = subprocess.PIPE if name == _CLIENT else said
            self._process = subprocess.Popen(
                [*_JAVA, "-cp", paths, name, *map(str, words)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=said,
                text=True,
            )

    def ask(self, *words: object) -> str:
        """
        The client's answer to a command.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(*words, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, self._said.read_text()
        return line.strip()

    def until_it(self, is_so: Callable[[], bool]) -> None:
        """
        Waits for a sign of it.
        """
        end_s = time.monotonic() + _START_S
        while not is_so():
            assert self._process.poll() is None, self._said.read_text()
            assert time.monotonic() < end_s, self._said.read_text()
            time.sleep(0.05)

    def kill(self) -> None:
        """
        Ends it at once. Again is fine.
        """
        self._process.kill()
        self._process.communicate()


class _Cluster:
    """
    The processes of one run.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        port = free_port(1)
        server = ZookeeperServer(
            folder / "zookeeper", port, more=("maxSessionTimeout=20000",)
        )
        stack.callback(server.kill)
        server.await_mode()
        self._uri = f"zk+hierarchical://{server.hosts}/ledgers"
        self.client = self._started(_CLIENT, folder / "client", self._uri)
        answer = self.client.ask("init")
        assert answer == "true", answer

    def bookie(self, name: str) -> tuple[_Process, str]:
        """
        A bookie that serves, and its id.
        """
        folder, port = self._folder / name, free_port(1)
        more = {
            **_BOOKIE,
            "bookiePort": port,
            "journalDirectories": folder / "journal",
            "ledgerDirectories": folder / "ledgers",
        }
        main = "org.apache.bookkeeper.server.Main"
        process = self._configured(main, folder, more)
        process.until_it(lambda: self._is_registered(port))
        return process, f"127.0.0.1:{port}"

    def auto_recovery(self) -> _Process:
        """
        Auditor and worker, before anything is lost.
        """
        main = "org.apache.bookkeeper.replication.AutoRecoveryMain"
        return self._configured(main, self._folder / "recovery", {})

    def _is_registered(self, port: int) -> bool:
        return f"127.0.0.1:{port}" in self.client.ask("bookies").split()

    def _configured(self, main: str, folder: Path, more: dict[str, object]) -> _Process:
        folder.mkdir()
        given = {**_BOTH, **more, "metadataServiceUri": self._uri}
        settings = folder / "settings.conf"
        settings.write_text("".join(f"{key}={given[key]}\n" for key in given))
        return self._started(main, folder, "--conf", settings)

    def _started(self, main: str, folder: Path, *words: str | Path) -> _Process:
        process = _Process(folder, main, *words)
        self._stack.callback(process.kill)
        return process


def auto_recovery(folder: Callable[[], Path], ledgers: Ledgers) -> Contender:
    """
    Timed: from the Auditor's first mark until every ledger that lay on a lost bookie
    and another one lies on that and a spare bookie. The loss is noticed before, when a
    session of ZooKeeper ends, and is not counted. Then the spare alone serves all
    entries.
    """

    @contextmanager
    def contend() -> Iterator[Timed]:
        place = folder()
        with ExitStack() as stack:
            cluster = _Cluster(place, stack)
            client = cluster.client
            source, _ = cluster.bookie("source")
            lost, lost_id = cluster.bookie("lost")
            client.ask("write", ledgers.count, ledgers.entries, ledgers.entry_bytes)
            _, spare_id = cluster.bookie("spare")
            recovery = cluster.auto_recovery()
            recovery.until_it(lambda: client.ask("audited") == "true")

            def run() -> float:
                lost.kill()
                shutil.rmtree(place / "lost")
                marked_ns = int(client.ask("marked"))
                return (int(client.ask("moved", lost_id, spare_id)) - marked_ns) / 1e9

            yield run
            source.kill()
            assert int(client.ask("read")) == ledgers.count * ledgers.entries

    return contend
