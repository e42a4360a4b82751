"""
Imported records: into nothing, into what is left of a deleted set, and not elsewhere.
"""

from __future__ import annotations

from dataclasses import replace

from lib.controller.broker_set_driver import Brokers, incarnation, start

from pystore.controller.decide.dispatch import decide
from pystore.controller.model.apply import apply_all
from pystore.controller.model.commands import ImportSet
from pystore.controller.model.decision import Accepted
from pystore.controller.model.facts import Facts
from pystore.controller.model.invariants import violations
from pystore.controller.model.state import SetState
from pystore.remoting.codes import ResponseCode
from pystore.replicaset import AgreedSet, Member


def exported() -> SetState:
    """
    The record of a set of two with a master.
    """
    brokers = Brokers()
    brokers.join(1, start(1))
    second = brokers.join(2, start(1))
    brokers.elect(1)
    brokers.admit(second)
    return brokers.state


def test_a_record_is_imported_once() -> None:
    """
    The same request again, after a lost answer, changes nothing.
    """
    brokers = Brokers()
    for _ in range(2):
        assert isinstance(brokers.ask(ImportSet(exported())), Accepted)
    assert 1 == brokers.state.version
    assert (exported().replicas, 1) == (brokers.state.replicas, brokers.state.epoch)
    assert Member(1, incarnation(1)) == brokers.master


def test_an_imported_set_should_have_as_many_replicas_as_before() -> None:
    """
    What an operator said about it is a part of its record.
    """
    brokers = Brokers()
    brokers.ask(ImportSet(replace(exported(), copies=5)))
    assert (5, 5) == (brokers.state.copies, brokers.state.wanted_copies)


def test_a_set_with_brokers_keeps_its_record() -> None:
    """
    Also one that has no master.
    """
    brokers = Brokers()
    brokers.join(1, start(1))
    refused = brokers.refused(ImportSet(exported()))
    assert ResponseCode.CONTROLLER_INVALID_REQUEST == refused.code
    assert "deleteBrokerSet" in refused.reason


def test_ids_and_epochs_of_a_deleted_set_continue() -> None:
    """
    The master of the import had an epoch that was given since, so it is none.
    """
    old = Member(5, incarnation(2))
    left = SetState(
        "cluster",
        "set",
        version=50,
        next_id=9,
        epoch=30,
        agreed=AgreedSet(frozenset(), 40),
        unreleased=frozenset({old}),
    )
    imported = decide(left, ImportSet(exported()), Facts())
    assert isinstance(imported, Accepted)
    now = apply_all(left, imported.events)
    assert () == violations(now)
    assert now.master is None
    assert (31, 41, 9) == (now.epoch, now.agreed.set_epoch, now.next_id)
    assert {old, exported().master} == now.unreleased
