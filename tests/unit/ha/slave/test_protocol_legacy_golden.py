"""
Our slave in the place of Java's: what recorded Java masters sent makes the log, the
epochs and the reports that RocketMQ's own slave had.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import tarfile
from pathlib import Path
from typing import Any

import pytest
from lib.ha.slave_owner import Owner, StoreLog

from pystore.epochs.table import EpochTable
from pystore.ha.slave.config import SlaveConfig
from pystore.ha.slave.effects import Adopt, Compare, Cut, LeaveMaster, Retry
from pystore.ha.slave.protocol_legacy import LegacySlaveProtocol
from pystore.ha.wire.legacy import LegacyAck, decode_ack, decode_handshake

GOLDEN = Path(__file__).parents[3] / "golden" / "ha"
SCENARIOS = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())
"""Every scenario; a new one is replayed as well."""

WENT_BACK = {("cut-mid-record", "conn2"): (14972, 1469)}
"""
RMQ-R157: Java's slave gave whole records up before it connected anew, down to its
dispatch position: what ours still has, and where the recorded master went on.
"""


class Replay:
    """
    One scenario: a slave of ours, fed with what the master sent.

    Attributes:
        expected: scenario.json.
        owner: of the newest link.
        closed: how each link ended; ``None``: it was cut.
    """

    def __init__(self, name: str, folder: Path, seed: int) -> None:
        self.path = GOLDEN / name
        self.expected: dict[str, Any] = json.loads(
            (self.path / "scenario.json").read_bytes()
        )
        config = self.expected["config"]
        self._chance = random.Random(seed)
        self._config = SlaveConfig(
            cluster="c",
            broker_name="b",
            broker_id=self.expected["slaveBrokerId"],
            is_learner=config["asyncLearner"],
            is_from_last_file=config["syncFromLastFile"],
            heartbeat_ms=config["haSendHeartbeatInterval"],
        )
        root = folder / "slave"
        before = self.path / "slave-before.tar.gz"
        if before.exists():
            root.mkdir()
            with tarfile.open(before) as archive:
                archive.extractall(root, filter="data")
        self.store = StoreLog(root, int(config["mappedFileSizeCommitLog"]))
        self.closed: list[LeaveMaster | None] = []
        self.owners: list[Owner] = []

    def __enter__(self) -> Replay:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.log.close()

    def run(self) -> Owner:
        """Replays every connection, in random pieces."""
        for path in sorted(self.path.glob("conn*.m2s.bin.gz")):
            went_back = WENT_BACK.get((self.path.name, path.name.split(".")[0]))
            if went_back is not None:
                ours, theirs = went_back
                assert ours == self.store.view().end_offset
                self.store.log.cut(theirs)
            owner = Owner(LegacySlaveProtocol(self._config), self.store)
            owner.connect()
            owner.feed(*self._pieces(gzip.decompress(path.read_bytes())))
            if not owner.closed:
                owner.connection.lost("the recording ends")
            self.closed.append(owner.closed)
            self.owners.append(owner)
        return self.owners[-1]

    def _pieces(self, data: bytes) -> list[bytes]:
        pieces = []
        while data:
            size = self._chance.choice([1, 3, 36, 1000, 5000, 40000])
            pieces.append(data[:size])
            data = data[size:]
        return pieces


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_a_java_master_sent_makes_the_log_of_a_java_slave(
    name: str, tmp_path: Path
) -> None:
    """
    Bytes, epochs and the confirm offset are those of RocketMQ's slave. In
    epoch-change-live it misses epochs that the master did not tell (RMQ-R159), and so
    do we.
    """
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    with Replay(name, tmp_path, seed) as replay:
        owner = replay.run()

        after = replay.expected["slaveAfter"]
        view, data = replay.store.view(), replay.store.data()
        assert after["minPhyOffset"] == view.min_offset
        assert after["maxPhyOffset"] == view.end_offset == view.received_offset
        assert after["logSha256"] == hashlib.sha256(data).hexdigest()
        assert [(e[0], e[1]) for e in after["epochs"]] == view.epochs.pairs()
        assert after["confirmOffset"] == view.confirm_offset
        if name != "no-consistent-point":
            last = decode_ack(memoryview(owner.sent[-1]))
            assert (LegacyAck(view.end_offset), 12) == last


def test_a_first_report_is_sent_at_once(tmp_path: Path) -> None:
    """
    RMQ-R173: a Java slave idles until its heartbeat; ours asks at once.
    """
    with Replay("slave-behind", tmp_path, 1) as replay:
        owner = replay.run()

        assert decode_handshake(memoryview(owner.sent[0])) is not None
        assert (LegacyAck(47352), 12) == decode_ack(memoryview(owner.sent[1]))


def test_equal_bytes_are_compared_not_cut(tmp_path: Path) -> None:
    """
    B10, RMQ-R159: the master tells epochs that the slave missed; Java's slave truncates
    to the end of the last common one, ours compares and adopts the labels.
    """
    with Replay("epoch-change-reconnect", tmp_path, 2) as replay:
        owner = replay.run()

        assert any(isinstance(effect, Compare) for effect in owner.done)
        assert not any(isinstance(effect, Cut) for effect in owner.done)
        adopted = [e.epochs for e in owner.done if isinstance(e, Adopt)]
        assert [EpochTable.of([(1, 0), (2, 27822), (3, 30146)])] == adopted
        reports = [decode_ack(memoryview(data)) for data in owner.sent[1:]]
        assert (LegacyAck(27822), 12) == reports[0]


def test_confirmed_bytes_that_differ_are_cut_where_they_do(tmp_path: Path) -> None:
    """
    B10: a diverged tail below our confirm offset is cut at the first difference
    once the bytes themselves show it, and the next link goes on from there.
    """
    with Replay("diverged-tail", tmp_path, 3) as replay:
        replay.store.log.writer.log.confirm(replay.store.view().end_offset)
        replay.run()
        first = replay.owners[0]

        assert isinstance(first.done[-2], Cut)
        assert first.done[-2].offset == replay.store.view().end_offset == 31451
        assert replay.closed[0] is not None
        assert replay.closed[0].retry is Retry.SOON
        replay.run()
        sha = hashlib.sha256(replay.store.data()).hexdigest()
        assert replay.expected["slaveAfter"]["logSha256"] == sha
        assert [(1, 0), (2, 31451)] == replay.store.view().epochs.pairs()


def test_a_slave_without_a_common_point_stops_loudly(tmp_path: Path) -> None:
    """
    RMQ-R148: Java's slave retries for ever without a word.
    """
    with Replay("no-consistent-point", tmp_path, 4) as replay:
        replay.run()

        for closed in replay.closed:
            assert closed is not None
            assert closed.retry is Retry.OPERATOR
            assert "resync needed" in closed.reason
