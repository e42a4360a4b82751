"""
RocketMQ's two kinds of controllers, each alone, on free ports of this machine.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from interop.broker_set import READY_S, free_ports
from interop.jvm import RIG

KINDS = ("dledger", "jraft")


@contextmanager
def running(folder: Path, kinds: Sequence[str] = KINDS) -> Iterator[dict[str, str]]:
    """
    Those kinds, started at once; the addresses by kind. Each leads when the block
    begins.
    """
    # What is started here is stopped here, and nothing else.
    environment = os.environ | {"RIG_REGISTRY": str(folder / "registry")}
    first = free_ports()
    ports = {kind: first + 2 * number for number, kind in enumerate(kinds)}
    with ExitStack() as stack:
        stack.callback(_stop, environment)
        starting = [
            subprocess.Popen(_start(folder, kind, port), env=environment)
            for kind, port in ports.items()
        ]
        assert [0] * len(kinds) == [one.wait(READY_S + 60) for one in starting]
        yield {kind: f"127.0.0.1:{port}" for kind, port in ports.items()}


def _stop(environment: dict[str, str]) -> None:
    stop = [str(RIG / "rig"), "stop", "--all", "--kill"]
    subprocess.run(stop, check=True, env=environment, timeout=60)


def _start(folder: Path, kind: str, port: int) -> list[str]:
    words = ["--dir", str(folder / kind), "--port", str(port), "--type", kind]
    limit = ["--timeout", str(READY_S)]
    return [str(RIG / "rig"), "start", "controller", *words, *limit]
