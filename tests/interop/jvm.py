"""
RocketMQ's store classes in a Java process that executes commands.

``rocketmq/src/StoreTool.java`` is the other end. One process serves many
stores, because its start takes time. The open stores of a process that ends are those
of a killed broker.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

RIG = Path(__file__).parent / "rocketmq"
TARGET = RIG / "target"

DEFAULT_VERSION = "5.3.3"
"""The version of RocketMQ whose processes and classes most tests use."""

VERSIONS = ("5.1.4", "5.2.0", "5.3.3", "5.4.0", "5.5.0")
"""The versions whose stores pystore opens."""

# The classes that compile with the store classes alone.
_STORE_SOURCES = ("RandomStore.java", "StoreTool.java")

# RocketMQ maps files and frees the mappings through these.
_OPENED = ("java.nio", "sun.nio.ch", "java.lang", "jdk.internal.ref")

Json = dict[str, Any]


class JavaFailure(Exception):
    """
    The Java side threw an unexpected exception; the text comes from it.
    """


def missing_tools() -> list[str]:
    """
    Returns the names of required programs that are not installed.
    """
    return [name for name in ("java", "javac", "mvn") if shutil.which(name) is None]


def target_of(version: str, *, processes: bool = True) -> Path:
    """
    Returns the folder of the jars and classes of a version: of its processes, or of its
    store classes alone. Each has the jars that Maven chooses for it, and these differ.
    """
    whole = TARGET if version == DEFAULT_VERSION else TARGET / version
    return whole if processes or version == DEFAULT_VERSION else whole / "store"


def fetch(
    version: str = DEFAULT_VERSION,
    timeout_s: float = 300,
    *,
    processes: bool = False,
) -> None:
    """
    Fetches the jars and compiles the tools, once for all processes of the tests.

    Args:
        version: of RocketMQ.
        timeout_s: for Maven and the compiler.
        processes: what the processes need, as always of the default version; otherwise
            only the store classes.

    Raises:
        subprocess.CalledProcessError: Maven or the compiler failed.
    """
    target = target_of(version, processes=processes)
    is_whole = target == target_of(version)
    every = tuple(path.name for path in RIG.glob("src/*.java"))
    sources = [RIG / "src" / name for name in (every if is_whole else _STORE_SOURCES)]
    target.mkdir(parents=True, exist_ok=True)
    with (target / "fetch.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if all(_is_compiled(source, target) for source in sources):
            return
        subprocess.run(
            [RIG / "rig", "fetch", *([] if is_whole else ["--store-only"])],
            check=True,
            timeout=timeout_s,
            env=os.environ | {"RIG_VERSION": version},
        )


def _is_compiled(source: Path, target: Path) -> bool:
    """
    Returns whether its class is newer than it and the list of jars. The jars came
    before each class.
    """
    made = target / "classes" / f"{source.stem}.class"
    if not made.exists():
        return False
    made_s = made.stat().st_mtime
    return all(made_s > one.stat().st_mtime for one in (source, RIG / "pom.xml"))


@dataclass(frozen=True)
class JavaStore:
    """
    A store that is open in the Java process.

    Attributes:
        root: the store directory.
        opened: the results of ``load`` and ``start``.
    """

    tool: StoreTool
    root: Path
    opened: Json

    def report(self, queries: list[Json] | None = None) -> Json:
        """
        Returns everything that Java reads from the store, with the keys of the golden
        data.
        """
        job = {"do": "report", "root": str(self.root), "queries": queries or []}
        return self.tool.ask(job)

    def append(self, messages: list[Json]) -> list[Json]:
        """
        Stores and dispatches messages and batches.

        Args:
            messages: of ``messages.java_message`` and ``java_batch``.

        Returns:
            One result for each message or batch; all were accepted.
        """
        job = {"do": "append", "root": str(self.root), "messages": messages}
        results: list[Json] = self.tool.ask(job)["results"]
        refused = [result for result in results if result["status"] != "PUT_OK"]
        if refused:
            raise JavaFailure(f"refused: {refused}")
        return results

    def truncate(self, offset: int) -> Json:
        """
        Cuts the log at *offset* as RocketMQ does: positions change, bytes stay.
        """
        return self.tool.ask(
            {"do": "truncate", "root": str(self.root), "offset": offset}
        )

    def close(self) -> None:
        """
        Shuts the store down cleanly; takes seconds.
        """
        self.tool.close_stores(self)


class StoreTool:
    """
    One Java process. For one thread.

    Attributes:
        version: of RocketMQ.
        stores_opened: the number of opened stores, including those closed since.
    """

    def __init__(
        self, *, version: str = DEFAULT_VERSION, answer_timeout_s: float = 60
    ) -> None:
        self.version = version
        self.stores_opened = 0
        self._answer_timeout_s = answer_timeout_s
        self._process = _start(version)

    @property
    def pid(self) -> int:
        """
        The process id of the Java process.
        """
        return self._process.pid

    def ask(self, job: Json) -> Json:
        """
        Sends one command and waits for its answer.

        Raises:
            JavaFailure: the command threw, or the process died or did not answer.
        """
        stdin, stdout = self._pipes()
        stdin.write(json.dumps(job).encode() + b"\n")
        stdin.flush()
        if not select.select([stdout], [], [], self._answer_timeout_s)[0]:
            raise JavaFailure(f"no answer in {self._answer_timeout_s} s: {job['do']}")
        line = stdout.readline()
        if not line:
            raise JavaFailure(f"the process ended at {job['do']}")
        answer: Json = json.loads(line)
        if "failure" in answer:
            raise JavaFailure(f"{job['do']}: {answer['failure']}")
        return answer

    def open(self, root: Path, config: Json) -> JavaStore:
        """
        Loads and starts a store.

        Args:
            root: the store directory; RocketMQ fills an empty one.
            config: keys of RocketMQ's ``MessageStoreConfig``.

        Returns:
            The store. ``opened`` has the result of the load; if the store did not
            start, it has ``startError``, and all other commands fail.
        """
        self.stores_opened += 1
        answer = self.ask({"do": "open", "root": str(root), "config": config})
        return JavaStore(self, root, answer)

    def close_stores(self, *stores: JavaStore) -> None:
        """
        Shuts several stores down cleanly, all at once.
        """
        self.ask({"do": "close", "roots": [str(store.root) for store in stores]})

    def halt(self) -> None:
        """
        Ends the process without closing a store. May be called again.
        """
        stdin, stdout = self._pipes()
        stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            # A hanging process is killed.
            self._process.kill()
            self._process.wait()
        stdout.close()

    def restart(self) -> None:
        """
        Kills the process with SIGKILL, and starts another one without stores.
        """
        self._process.kill()
        self.halt()
        self._process = _start(self.version)
        self.stores_opened = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.halt()

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout


def java_command(main: str, version: str = DEFAULT_VERSION) -> list[str]:
    """
    Returns the command that runs a class of these tests with RocketMQ's classes.
    """
    target = target_of(version, processes=f"{main}.java" not in _STORE_SOURCES)
    opens = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED]
    return [
        "java",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Xmx512m",
        *opens,
        "-Drmq.logback.configurationFile=rmq.quiet.logback.xml",
        f"-Duser.home={target}",
        "-Duser.timezone=UTC",
        "-cp",
        f"{target / 'classes'}:{target / 'lib'}/*",
        main,
    ]


def run_once(main: str, job: Json, timeout_s: float = 120) -> Json:
    """
    Runs a class of these tests that does one task and ends.

    Raises:
        JavaFailure: the class threw.
    """
    done = subprocess.run(
        [*java_command(main), json.dumps(job)],
        capture_output=True,
        env=_ENVIRONMENT,
        timeout=timeout_s,
        check=False,
    )
    if done.returncode:
        raise JavaFailure(done.stderr.decode(errors="replace")[-2000:])
    answer: Json = json.loads(done.stdout.splitlines()[-1])
    return answer


def _start(version: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        java_command("StoreTool", version),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=_ENVIRONMENT,
    )


# Topics are directories, and their names are not all ASCII.
_ENVIRONMENT = os.environ | {"LC_ALL": "C.UTF-8"}
