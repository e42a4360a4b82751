"""
RocketMQ's two kinds of controllers, each alone, on free ports of this machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from interop.rig import READY_S, Rig, free_ports

KINDS = ("dledger", "jraft")


@contextmanager
def running(folder: Path, kinds: Sequence[str] = KINDS) -> Iterator[dict[str, str]]:
    """
    Runs controllers of these kinds; yields their addresses by kind. Each one leads when
    the block begins.
    """
    rig, first = Rig(folder), free_ports()
    ports = {kind: first + 2 * number for number, kind in enumerate(kinds)}
    with ExitStack() as stack:
        stack.callback(rig.stop)
        starting = []
        for kind, port in ports.items():
            place = ("--dir", folder / kind, "--port", str(port))
            starting.append(rig.begin("start", "controller", "--type", kind, *place))
        assert [0] * len(kinds) == [one.wait(READY_S + 60) for one in starting]
        yield {kind: f"127.0.0.1:{port}" for kind, port in ports.items()}
