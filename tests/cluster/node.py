"""
A broker of a set in a process of its own, which may be killed at any moment.

Usage: ``python node.py STORE BROKER_ID ACKS``; orders come on stdin, see `orders`.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import traceback
from pathlib import Path

# A script finds what is beside it, not what is above.
sys.path.insert(0, str(Path(__file__).parents[1]))

from cluster.appenders import Appenders
from cluster.orders import (
    Line,
    line_of,
    member_of,
    pack_change,
    pack_member,
    set_of,
)

from pystore.core.options import LogArguments
from pystore.ha.config import ReplicaConfig
from pystore.ha.decision import Decision
from pystore.ha.insync.config import SetRules
from pystore.ha.insync.set_change import SetChange
from pystore.ha.master.insync_monitor import SetRefusal
from pystore.ha.master.lease import UNLEASED
from pystore.ha.replica import Replica
from pystore.ha.result import ReplicaStatus
from pystore.ha.role import Role
from pystore.ha.slave.backoff import BackOffConfig
from pystore.replicaset import AgreedSet

__all__ = ["Node"]

BROKER_IDS = frozenset({1, 2, 3})
SEGMENT = 1 << 20
ANSWER_S = 1.0
DRAIN_MS = 60_000
OPTIONS: LogArguments = {"segment_size": SEGMENT, "flush_interval_ms": 5}
RULES = SetRules(min_in_sync=2, lag_ms_max=5_000, first_check_ms=1_000, check_ms=1_000)


class Node:
    """
    One broker. Its main thread obeys orders.

    Args:
        root: of its store.
        broker_id: from 1 on.
        acks: where to write down what was acknowledged.
    """

    def __init__(self, root: Path, broker_id: int, acks: Path) -> None:
        self._broker_id = broker_id
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._acks = os.open(acks, flags, 0o644)
        self._telling = threading.Lock()
        self._answers: queue.Queue[Line] = queue.Queue()
        self._appenders: Appenders | None = None
        place = ReplicaConfig(
            "cluster",
            "set",
            broker_id,
            rules=RULES,
            heartbeat_ms=500,
            pace=BackOffConfig(20, 200),
            retry_ms=50,
            say=self._say,
            on_event=lambda event: self._say(event.text),
        )
        # A thread that vanishes would hide why.
        threading.excepthook = lambda it: self._broken(it.exc_value)
        self._replica = Replica(root, place, self, **OPTIONS)

    def tell(self, told: str, **what: object) -> None:
        """
        Tells the controller. Any thread.
        """
        with self._telling:
            os.write(1, line_of({"told": told, **what}))

    def run(self) -> None:
        """
        Obeys until it is told to close, or stdin ends.
        """
        self.tell("up", member=pack_member(self._replica.me), **self._position())
        for raw in sys.stdin.buffer:
            order = json.loads(raw)
            if order["do"] == "close":
                break
            self._obey(order)
        if self._appenders is not None:
            self._appenders.rest()
        self._replica.close(DRAIN_MS)

    def _obey(self, order: Line) -> None:
        match order["do"]:
            case "stand":
                self._change(Decision(order["epoch"]), Role.IDLE)
                self.tell("standing", epoch=order["epoch"], **self._position())
            case "lead":
                self._lead(order["epoch"], set_of(order["set"]))
            case "follow":
                master, address = member_of(order["master"]), order["address"]
                self._replica.decided(Decision(order["epoch"], master, address))
                self.tell("following", epoch=order["epoch"])
            case "answer":
                self._answers.put(order)
            case "status":
                self.tell("status", **self._position())
            case "rest":
                assert self._appenders is not None
                self._appenders.rest()
                self.tell("resting")

    def _position(self) -> Line:
        log = self._replica.log.log()
        return {
            "last_epoch": log.epochs.last_epoch,
            "end": log.end_offset,
            "flushed": log.flushed_offset,
            "confirm": log.confirm_offset,
        }

    def _say(self, line: str) -> None:
        self.tell("said", line=line)

    def _broken(self, error: BaseException | None) -> None:
        self.tell("broken", text="".join(traceback.format_exception(error)))

    # -- roles ---------------------------------------------------------------

    def _change(self, decision: Decision, role: Role) -> ReplicaStatus:
        """
        Decides, and waits until it is so, or something newer was heard.
        """
        self._replica.decided(decision)
        return self._replica.wait_for(
            lambda stands: (stands.role, stands.epoch) == (role, decision.epoch),
            DRAIN_MS,
        )

    def _lead(self, epoch: int, agreed: AgreedSet) -> None:
        me, replica = self._replica.me, self._replica
        standing = self._change(Decision(epoch, me, "", agreed, UNLEASED), Role.MASTER)
        self.tell("leading", epoch=epoch, address=standing.address)
        name = f"{me.broker_id}-{epoch}"
        self._appenders = Appenders(replica, self._acks, name, self._broken)

    # -- what the replica asks of a controller -------------------------------

    def broker_ids(self) -> frozenset[int]:
        """
        The set.
        """
        return BROKER_IDS

    def newer_epoch_told(self, epoch: int) -> None:
        """
        Printed only: the scripted controller tells each decision itself.
        """
        self._say(f"a peer told epoch {epoch}")

    def resign(self, epoch: int, reason: str) -> None:
        """
        Printed only: only a closed replica resigns here.
        """
        self._say(f"epoch {epoch} is resigned: {reason}")

    def ask(self, change: SetChange) -> AgreedSet | SetRefusal | None:
        """
        Asks the scripted controller, whose answer may be lost.
        """
        self.tell("ask", change=pack_change(change))
        while True:
            try:
                answer = self._answers.get(timeout=ANSWER_S)
            except queue.Empty:
                # It was lost on the way, there or back.
                return None
            # One that comes too late answers nothing any more.
            if answer["attempt"] == change.attempt:
                if answer["set"] is not None:
                    return set_of(answer["set"])
                refused = map(member_of, answer["refused"])
                return SetRefusal(frozenset(one.broker_id for one in refused))


if __name__ == "__main__":
    node = Node(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
    node.run()
