"""
Large stores for reading, made once by processes that end or are killed.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from functools import cached_property
from pathlib import Path

from load import Load
from loops import punch
from machine import warm_cache
from writers import WAYS

from pystore.store.commit_log import CommitLog
from pystore.store.sealer import seal_next
from pystore.store.store import Store

__all__ = ["QUEUE_FILE_BYTES", "Stores", "sparse_store"]

QUEUE_FILE_BYTES = 6_000_000
"""RocketMQ's default."""


class Stores:
    """
    Stores of one load under a folder.

    Args:
        root: folder of the stores.
        load: their records.
        segment: size of a segment.
    """

    def __init__(self, root: Path, load: Load, segment: int) -> None:
        self.root = root
        self.load = load
        self.segment = segment

    @cached_property
    def killed(self) -> Path:
        """
        A store whose writer was killed by SIGKILL after its last acknowledgement.
        """
        root = self.root / "killed"
        command = [sys.executable, __file__, str(root)]
        command += map(str, (self.load.batch, self.load.records, self.segment))
        run = subprocess.run(
            command, env={"PYTHONPATH": ":".join(sys.path)}, check=False
        )
        assert run.returncode == -signal.SIGKILL
        warm_cache(self.segments(root))
        return root

    @cached_property
    def closed(self) -> Path:
        """
        The same, recovered and closed cleanly.
        """
        with CommitLog(self.killed):
            pass
        return self.killed

    @cached_property
    def queued(self) -> Path:
        """
        A copy of the closed store that has consume queues, closed cleanly.
        """
        root = self.root / "queued"
        shutil.copytree(self.closed, root)
        with Store(root, queue_file_bytes=QUEUE_FILE_BYTES):
            pass
        return root

    @cached_property
    def sealed(self) -> Path:
        """
        A copy of the closed store that has consume queues, and whose full segments are
        sealed.
        """
        root = self.root / "sealed"
        shutil.copytree(self.closed, root)
        with Store(root, queue_file_bytes=QUEUE_FILE_BYTES) as store:
            while seal_next(store.log.writer):
                pass
        return root

    def segments(self, root: Path) -> list[Path]:
        """
        The segment files of a store.
        """
        return sorted((root / "commitlog").iterdir())


def sparse_store(root: Path, segments: int, segment: int) -> None:
    """
    Make a cleanly closed store of many segments that hold a record each.

    What lies between the record and the end of a segment is punched, so that it
    takes no space.
    """
    load = Load(1, 1)
    with CommitLog(root, segment_size=segment) as log:
        for number in range(segments):
            WAYS["single"](log, load)
            log.sync()
            if number < segments - 1:
                log.writer.log.roll()
            path = root / "commitlog" / f"{number * segment:020}"
            punch(path, 4096, segment - 4096)


def _write_and_die(root: Path, load: Load, segment: int) -> None:
    log = CommitLog(root, segment_size=segment)
    WAYS["columns"](log, load)
    signal.raise_signal(signal.SIGKILL)


if __name__ == "__main__":
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    _batch, _records, _segment = map(int, sys.argv[2:])
    _write_and_die(Path(sys.argv[1]), Load(_batch, _records), _segment)
