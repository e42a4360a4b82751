"""
A Spark session in a process of its own, with a given number of workers. It verifies the
same stores several times: a process has only one session, and a new session is slow.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pystore.spark.session import open_session
from pystore.spark.verify.executors import on_spark
from pystore.spark.verify.run import verify_stores

__all__ = ["verifying_session"]

_READY = "done"
_WARM_RUNS = 3  # until Java has compiled what it runs


@contextmanager
def verifying_session(
    workers: int, roots: Sequence[Path]
) -> Iterator[Callable[[], None]]:
    """
    Yields a function that verifies the stores, in a session that ran it before.

    Args:
        workers: of the session, ``local[workers]``.
        roots: of the stores.
    """
    command = [sys.executable, __file__, str(workers), *map(str, roots)]
    with subprocess.Popen(
        command,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        asking, answers = child.stdin, child.stdout

        def verify() -> None:
            print(file=asking, flush=True)
            assert answers.readline().strip() == _READY

        try:
            for _ in range(_WARM_RUNS):
                verify()
            yield verify
        finally:
            asking.close()


def _serve(workers: int, roots: Sequence[str]) -> None:
    with open_session("bench", f"local[{workers}]") as session:
        for _ in sys.stdin:
            found = verify_stores(on_spark(session), roots, replicas="none")
            assert not any(one.is_bad for one in found.verdicts)
            print(_READY, flush=True)


if __name__ == "__main__":
    _serve(int(sys.argv[1]), sys.argv[2:])
