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

from pystore.ha.insync.member import AgreedSet, Member, SetChange
from pystore.ha.insync.rules import SetRules
from pystore.ha.master.judge import SetRefusal
from pystore.ha.master.service import MasterService, Mastership, clock_ms
from pystore.ha.master.terms import Terms
from pystore.ha.slave.backoff import BackOff
from pystore.ha.slave.connection import SlaveConnection
from pystore.ha.slave.follower import Follower, Rim
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.ha.slave.stream import Stream, connect
from pystore.ha.slave.terms import Terms as SlaveTerms
from pystore.options import LogArguments

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
        self._log = ReplicaLog(root, **OPTIONS)
        incarnation = self._log.incarnation
        self._me = Member(broker_id, (incarnation.counter, incarnation.bits))
        self._stopping = threading.Event()
        self._following: threading.Thread | None = None
        self._service: MasterService | None = None
        self._appenders: Appenders | None = None

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
        self.tell("up", member=pack_member(self._me), **self._position())
        for raw in sys.stdin.buffer:
            order = json.loads(raw)
            if order["do"] == "close":
                break
            self._obey(order)
        self._stand()
        if self._appenders is not None:
            self._appenders.rest()
        if self._service is not None:
            self._service.close(DRAIN_MS)
        self._log.close()

    def _obey(self, order: Line) -> None:
        match order["do"]:
            case "stand":
                self._stand()
                self.tell("standing", epoch=order["epoch"], **self._position())
            case "lead":
                self._lead(order["epoch"], set_of(order["set"]))
            case "follow":
                self._follow(order["port"], order["epoch"])
            case "answer":
                self._answers.put(order)
            case "status":
                self.tell("status", **self._position())
            case "rest":
                assert self._appenders is not None
                self._appenders.rest()
                self.tell("resting")

    def _position(self) -> Line:
        log = self._log.log()
        return {
            "last_epoch": log.epochs.last_epoch,
            "end": log.end_offset,
            "flushed": log.flushed_offset,
            "confirm": log.confirm_offset,
        }

    def _broken(self, error: BaseException) -> None:
        text = "".join(traceback.format_exception(error))
        self.tell("broken", text=text)

    # -- a slave -------------------------------------------------------------

    def _stand(self) -> None:
        self._stopping.set()
        if self._following is not None:
            self._following.join()
        self._following = None

    def _follow(self, port: int, epoch: int) -> None:
        self._stand()
        assert self._me.incarnation is not None
        counter, bits = self._me.incarnation
        terms = SlaveTerms(
            "cluster",
            "set",
            self._broker_id,
            epoch=epoch,
            incarnation=counter,
            incarnation_bits=bits,
        )
        self._stopping = stopping = threading.Event()

        def dial() -> Stream:
            return connect("127.0.0.1", port, stopping.is_set, clock_ms)

        rim = Rim(
            dial=dial,
            make=lambda: SlaveConnection(terms),
            now_ms=clock_ms,
            pause=lambda wait_ms: (stopping.wait(wait_ms / 1000), None)[1],
            is_stopping=stopping.is_set,
            say=lambda line: self.tell("said", line=f"slave: {line}"),
        )
        follower = Follower(self._log, rim, BackOff(lambda: 0.0, 20, 200))

        def run() -> None:
            try:
                follower.run()
            except BaseException as error:
                # Whatever it was: a thread that vanishes would hide it.
                self._broken(error)

        self._following = threading.Thread(target=run)
        self._following.start()
        self.tell("following", epoch=epoch)

    # -- a master ------------------------------------------------------------

    def _lead(self, epoch: int, agreed: AgreedSet) -> None:
        self._stand()
        log = self._log.begin_mastership(epoch)
        terms = Terms(
            "cluster", "set", self._broker_id, epoch, SEGMENT, heartbeat_ms=500
        )
        ship = Mastership(
            terms=terms,
            me=self._me,
            agreed=agreed,
            broker_ids=lambda: BROKER_IDS,
            rules=RULES,
            ask=self._ask,
            say=lambda line: self.tell("said", line=f"master: {line}"),
        )
        self._service = service = MasterService(log, ship)
        self.tell("leading", epoch=epoch, port=service.address[1])
        name = f"{self._broker_id}-{epoch}"
        self._appenders = Appenders(log, service, self._acks, name, self._broken)

    def _ask(self, change: SetChange) -> AgreedSet | SetRefusal | None:
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
