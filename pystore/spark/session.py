"""
The Spark session of a job: started if there is none, and stopped afterwards.

If Java, PySpark or pyarrow is missing, the error is one line that explains how to
install it. The error of a task is one line, too.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from pystore.errors import UnavailableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["described", "is_remote", "java_problem", "job_errors", "open_session"]

_JAVA_LEAST = 17
_JAVA_ADVICE = (
    "install Java 17 or 21 (Debian: apt-get install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17) or set JAVA_HOME"
)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_QUIET = Path(__file__).with_name("log4j2.properties")
_PYTHON_ERROR = re.compile(r"^(?P<name>[A-Za-z_][\w.]*): (?P<text>.*)$", re.MULTILINE)
_LOST = re.compile(
    r"Python worker exited unexpectedly[^\n]*|ExecutorLostFailure[^\n]*"
    r"|java\.lang\.OutOfMemoryError[^\n]*|Total size of serialized results[^\n]*"
)
_PACKAGES = {
    "spark": ("pyspark", "pyarrow"),
    "connect": ("pyspark", "pyarrow", "grpc"),
}
"""What a session needs, by the extra that installs it."""

_DESCRIPTION = "spark.job.description"
_NO_MODULE = re.compile(r"No module named '([\w.]+)'")


@contextmanager
def open_session(
    name: str,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """
    Yields the session of this process, or a new one that ends with the block.

    Workers run this Python interpreter, unless ``PYSPARK_PYTHON`` or the setting
    ``spark.pyspark.python`` names another one.

    Args:
        name: of the application.
        master: as in Spark, or ``sc://host:port`` of a server of Spark Connect;
            ``None``: that of ``SPARK_REMOTE`` or of spark-submit, else ``local[*]``.
        settings: more settings of Spark, for a new session.

    Raises:
        UnavailableError: PySpark, pyarrow or Java is missing, Java is too old, or the
            cluster cannot be reached.
    """
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    server = _server_of(master)
    problem = None
    if not (is_submitted or server or _has_session()):
        problem = java_problem()
    if problem:
        raise UnavailableError(problem)
    _require_packages("connect" if server else "spark")
    # PySpark 4.3 warns of every pandas 3, which works here. spark-submit puts what a
    # program writes to standard error into its output, where JSON stands alone.
    text = "PySpark does not yet fully support pandas"
    warnings.filterwarnings("ignore", text, FutureWarning)
    # PySpark is needed from here on; the package alone must not need it.
    from pyspark.sql import SparkSession  # noqa: PLC0415

    existing = SparkSession.getActiveSession()
    if existing is not None:
        yield existing
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if server:
        chosen = {"spark.sql.session.timeZone": "UTC"} | dict(settings or {})
        builder = builder.remote(server)
    else:
        chosen = _settings(master, settings or {}, is_submitted)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    with _interrupted_later(), job_errors():
        session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


def _server_of(master: str | None) -> str | None:
    """
    The address of a server of Spark Connect; ``None``: the session is classic.
    """
    given = os.environ.get("SPARK_REMOTE") if master is None else master
    return given if given and given.startswith("sc://") else None


def _require_packages(extra: str) -> None:
    for package in _PACKAGES[extra]:
        if importlib.util.find_spec(package) is None:
            raise UnavailableError(
                f"this Python ({sys.executable}) has no {package}: "
                f"pip install 'pystore-commitlog[{extra}]'"
            )


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """
    Delays Ctrl-C until Spark's Java process has started. If PySpark is interrupted
    while it waits for that process, it never ends the process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def hold(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    before = signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        # PySpark may have installed its own handler.
        if signal.getsignal(signal.SIGINT) is hold:
            signal.signal(signal.SIGINT, before)
    if came:
        signal.raise_signal(signal.SIGINT)


def _has_session() -> bool:
    """
    Whether a session runs already, so that Java need not be checked.
    """
    running = sys.modules.get("pyspark.sql")
    return running is not None and running.SparkSession.getActiveSession() is not None


def _settings(
    master: str | None, given: Mapping[str, str], is_submitted: bool
) -> dict[str, str]:
    chosen = {
        "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
        "spark.sql.session.timeZone": "UTC",
    }
    if not is_submitted:
        chosen["spark.master"] = master or os.environ.get("MASTER", "local[*]")
        chosen["spark.driver.extraJavaOptions"] = (
            f"-Dlog4j2.configurationFile={_QUIET.as_uri()}"
        )
        if chosen["spark.master"].startswith("local"):
            # The driver is the whole cluster: no other host connects to it.
            chosen["spark.driver.host"] = "127.0.0.1"
            chosen["spark.driver.bindAddress"] = "127.0.0.1"
            chosen["spark.ui.enabled"] = "false"
    elif master:
        chosen["spark.master"] = master
    return chosen | dict(given)


def java_problem() -> str | None:
    """
    Returns the problem of this machine's Java and what to do; ``None``: no problem.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java is None:
        where = f"JAVA_HOME={home} has no bin/java" if home else "Java is missing"
        return f"{where}, and Spark needs Java: {_JAVA_ADVICE}"
    try:
        version = subprocess.run(
            [java, "-version"],
            capture_output=True,
            text=True,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        # For example the wrapper of macOS, if Java is not installed.
        return f"{java} does not run ({error}): {_JAVA_ADVICE}"
    found = _VERSION.search(version.stderr + version.stdout)
    if found and int(found[1]) < _JAVA_LEAST:
        return f"{java} is Java {found[1]}, too old for Spark: {_JAVA_ADVICE}"
    return None


def is_remote(session: object) -> bool:
    """
    Whether a session is of Spark Connect. It has no ``sparkContext``.
    """
    return type(session).__module__.startswith("pyspark.sql.connect")


@contextmanager
def described(session: Any, text: str) -> Iterator[None]:  # noqa: ANN401  of any kind
    """
    Describes the Spark jobs of a block, for Spark's pages and listeners.

    Args:
        session: classic: the jobs get the description. Of Spark Connect, whose jobs
            have none: the operations get it as a tag.
        text: without a comma.
    """
    if is_remote(session):
        session.addTag(text)
        try:
            yield
        finally:
            session.removeTag(text)
        return
    context = session.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, text)
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)


@contextmanager
def job_errors() -> Iterator[None]:
    """
    Turns an error of Spark, of Py4J or of a task into one line.

    Raises:
        UnavailableError: in place of that error.
    """
    from pyspark.errors import PySparkException  # noqa: PLC0415

    kinds: tuple[type[Exception], ...] = (PySparkException,)
    # A client of Spark Connect has none.
    with suppress(ImportError):
        from py4j.protocol import Py4JError  # noqa: PLC0415  comes with PySpark

        kinds = (PySparkException, Py4JError)
    try:
        yield
    except kinds as error:
        # The traces of two languages fill pages; one line of them helps a user.
        raise UnavailableError(_one_line(str(error))) from error


def _one_line(text: str) -> str:
    """
    The cause of an error, from the traces of a worker and of the JVM.
    """
    missing = _NO_MODULE.search(text)
    if missing:
        return (
            f"the workers' Python has no {missing[1]}: install "
            "pystore-commitlog[spark] there, or set PYSPARK_PYTHON to a Python that "
            "has it"
        )
    raised = [
        found
        for found in _PYTHON_ERROR.finditer(text)
        if found["name"].startswith("pystore.") or found["name"].endswith("Error")
    ]
    if raised:
        return f"in a task: {raised[-1]['text']}"
    lost = _LOST.search(text)
    if lost:
        return (
            f"in a task: {lost[0].strip()}: most often the memory was too small: see "
            "spark.executor.memoryOverhead, or use more and smaller tasks"
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"Spark: {lines[0] if lines else 'failed without a message'}"
