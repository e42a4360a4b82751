"""
What all processes of a simulation share.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from sim.checkers import Checker, Violation
from sim.clock import Clock, LocalClock
from sim.controller import Controller
from sim.ledger import Ledger
from sim.network import CONTROLLER, RECORDS, Network
from sim.records import RecordServer
from sim.setting import Setting

from pystore.ha.insync.config import SetRules

if TYPE_CHECKING:
    from sim.broker import Broker

__all__ = ["World"]


class World:
    """
    What all of them share.

    Args:
        random: chance.
        rules: of every mastership.
        setting: what is unusual.
    """

    def __init__(self, random: Random, rules: SetRules, setting: Setting) -> None:
        self.random = random
        self.rules = rules
        self.setting = setting
        self.clock = Clock()
        self.network = Network(self.clock, random)
        self.ledger = Ledger()
        self.records = RecordServer(
            self.local_clock(RECORDS), self.network, self.ledger, setting.session_ms
        )
        self.controllers = {
            number: Controller(number, self)
            for number in range(CONTROLLER, CONTROLLER - setting.controllers, -1)
        }
        self.brokers: dict[int, Broker] = {}
        self.by_id: dict[int, Broker] = {}
        self.checker = Checker(rules.min_in_sync)
        self.numbers = self.links = self.legacy_links = self.cuts = 0

    def local_clock(self, number: int) -> LocalClock:
        """
        Returns the clock of a machine.
        """
        rate = self.setting.rates.get(number, 1.0)
        offset = self.random.randint(0, 10**9) if self.setting.is_skewed else 0
        return LocalClock(self.clock, rate, offset)

    def number(self) -> int:
        """
        A number that was not used before.
        """
        self.numbers += 1
        return self.numbers

    def leader(self) -> Controller | None:
        """
        Returns the controller that leads, if it knows.
        """
        number = self.records.leader()
        leader = None if number is None else self.controllers[number]
        return leader if leader and leader.leader_term else None

    def named(self, broker: Broker, broker_id: int) -> None:
        """
        A store has its id for good: no other store has it, or ever had (RMQ-R35,
        RMQ-R36).
        """
        owner = self.by_id.setdefault(broker_id, broker)
        if owner is not broker:
            raise Violation(
                f"id {broker_id} of broker {broker.number} is broker {owner.number}'s"
            )
