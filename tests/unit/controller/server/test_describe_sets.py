"""
All sets at once, as the leading controller describes them.
"""

from __future__ import annotations

import random

from lib.controller.broker_set_driver import Brokers, incarnation, start
from lib.controller.controller_server import Running, SpokenBroker, running
from lib.remoting.virtual_time_loop import move, run
from lib.values import replace

from pystore.controller.client.set_descriptions import page_of
from pystore.controller.liveness.heartbeats import Heartbeat, Heartbeats
from pystore.controller.model.codec import encode
from pystore.controller.model.commands import ChangeBroker, SetCopies
from pystore.controller.model.facts import Facts
from pystore.controller.model.log_end import LogBegin, LogEnd
from pystore.controller.model.replica import LogStanding
from pystore.controller.model.replies import Done
from pystore.controller.model.state import SetState
from pystore.controller.protocol.set_descriptions import (
    BrokerDescription,
    SetDescription,
    SetsPage,
)
from pystore.controller.server.describe_sets import set_description
from pystore.controller.server.record_keys import set_key
from pystore.records.memory import MemorySpace, MemoryStore
from pystore.records.ops import Put
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.operator_headers import DescribeSetsRequest

S = 1_000_000_000


async def pages(at: Running) -> list[SetsPage]:
    """
    All of them.
    """
    found: list[SetsPage] = []
    header = DescribeSetsRequest()
    while True:
        page, header = page_of(await at.ask(RequestCode.DESCRIBE_SETS, header))
        found.append(page)
        if not (header.after_cluster or header.after_name):
            return found


async def the_set(at: Running) -> SetDescription:
    """
    The only one.
    """
    (page,) = await pages(at)
    (one,) = page.sets
    return one


def test_a_set_is_described_as_recorded_and_heard() -> None:
    """Each value of each broker, beside those of the record."""
    brokers = Brokers()
    a = brokers.join(1, start(1, begin=LogBegin(0)))
    late = start(4, begin=LogBegin(4096, is_filling=True))
    b, _ = brokers.join(2, late), brokers.join(3)
    brokers.elect(1)
    brokers.admit(b)
    brokers.do(ChangeBroker(3, is_learner=True), Done)
    brokers.do(SetCopies(3), Done)
    liveness = Heartbeats()
    key = brokers.state.key
    first = Heartbeat(1, 1, a.incarnation, position=LogEnd(1, 70))
    liveness.receive(key, replace(first, disk_used_percent=83), 4 * S)
    ill = Heartbeat(2, 2, b.incarnation, position=LogEnd(1, 60), disk_problem="EIO")
    liveness.receive(key, replace(ill, begin=late.begin), 5 * S)
    liveness.replaced(key, 2, incarnation(9), 6 * S)
    now = 9 * S
    facts = Facts(
        liveness.last_heartbeats(key, now), liveness.former_heartbeats(key, now)
    )
    heard = liveness.heard_brokers(key, now)
    found = set_description(brokers.state, facts, heard, now_ns=now, began_ns=2 * S)

    state = brokers.state
    assert found == SetDescription(
        "cluster",
        "set",
        state.version,
        1,
        state.epoch,
        state.agreed.set_epoch,
        3,
        3,
        (
            BrokerDescription(
                1,
                "host:1",
                is_alive=True,
                since_ms=5_000,
                incarnation=incarnation(1).text,
                begin=LogBegin(0),
                end=LogEnd(1, 70),
                is_in_sync=True,
                disk_used_percent=83,
            ),
            BrokerDescription(
                2,
                "host:2",
                since_ms=3_000,
                incarnation=incarnation(4).text,
                begin=late.begin,
                end=LogEnd(1, 60),
                is_in_sync=True,
                disk_problem="EIO",
            ),
            BrokerDescription(
                3,
                "host:3",
                since_ms=7_000,
                end=found.brokers[2].end,
                is_learner=True,
            ),
        ),
    )


def described(brokers: Brokers) -> list[BrokerDescription]:
    """
    The brokers of a set, as far as its record goes.
    """
    found = set_description(brokers.state, brokers.facts, {}, now_ns=S, began_ns=0)
    return list(found.brokers)


def pair() -> Brokers:
    """
    A master and a member.
    """
    brokers = Brokers()
    brokers.join(1, start(1))
    b = brokers.join(2, start(1))
    brokers.elect(1)
    brokers.admit(b)
    return brokers


def test_a_broker_that_no_master_admitted_again_has_its_standing() -> None:
    """As its registration decided it."""
    brokers = pair()
    brokers.die(1, has_ended=True)
    brokers.elect()
    brokers.register(1, start(2))
    one, two = described(brokers)

    assert (False, LogStanding.RESTARTED) == (one.is_in_sync, one.standing)
    assert (True, LogStanding.SOUND) == (two.is_in_sync, two.standing)


def test_a_member_before_the_last_election_is_a_candidate() -> None:
    """It is alive and sound, and not in the SyncStateSet yet (B7)."""
    brokers = pair()
    brokers.die(1)
    brokers.register(1, start(2, is_clean=True))
    brokers.elect()
    found = described(brokers)

    master = brokers.master.broker_id
    for one in found:
        is_master = one.broker_id == master
        assert (is_master, not is_master) == (one.is_in_sync, one.is_candidate)


def test_it_is_told_who_is_alive_and_since_when() -> None:
    """By the controller's own clock; and how full a disk is, and what is wrong."""

    async def main() -> None:
        async with running() as at:
            one, two = SpokenBroker(at, 1), SpokenBroker(at, 2)
            one.disk_used_percent, two.disk_problem = 71, "no space"
            for broker in (one, two):
                await broker.join()
            move(8_000)
            await one.beat()
            move(4_000)
            (page,) = await pages(at)
            first, second = page.sets[0].brokers
            assert (True, 71, "") == (
                first.is_alive,
                first.disk_used_percent,
                first.disk_problem,
            )
            assert 12_000 <= first.since_ms < 20_000
            assert 12_000 <= page.led_ms < 20_000
            # Its last heartbeat was valid for ten seconds.
            assert 2_000 <= second.since_ms < 10_000
            assert (False, -1, "no space") == (
                second.is_alive,
                second.disk_used_percent,
                second.disk_problem,
            )

    run(main())


def test_a_controller_that_begins_to_lead_says_how_little_it_knows() -> None:
    """A broker that it never heard is not alive since it began to lead."""

    async def main() -> None:
        space = MemorySpace()
        async with running(space) as at:
            await SpokenBroker(at, 1).join()
        async with running(space) as at:
            (page,) = await pages(at)
            (broker,) = page.sets[0].brokers
            assert not page.may_replace
            assert not broker.is_alive
            assert page.led_ms <= broker.since_ms < 10_000
            move(10_001)
            (page,) = await pages(at)
            (broker,) = page.sets[0].brokers
            assert page.may_replace
            assert 10_000 <= page.led_ms <= broker.since_ms

    run(main())


def test_after_a_pause_of_the_controller_silence_means_nothing_yet() -> None:
    """As for its own decisions: heartbeats waited meanwhile (RMQ-R226)."""

    async def main() -> None:
        waking = [0]
        async with running(waking_ns=lambda: waking[0]) as at:
            await SpokenBroker(at, 1).join()
            move(10_001)
            (page,) = await pages(at)
            assert page.may_replace
            waking[0] += 60 * S
            (page,) = await pages(at)
            assert not page.may_replace

    run(main())


def test_a_controller_without_proof_of_its_term_describes_nothing() -> None:
    """C2: another one may lead, and know better."""

    async def main() -> None:
        async with running(length_ns=3 * S) as at:
            await SpokenBroker(at, 1).join()
            assert 1 == len((await the_set(at)).brokers)
            leader = at.controller.context.leader
            assert leader is not None
            leader.authority.term.sent_ns -= 3 * S
            answer = await at.ask(RequestCode.DESCRIBE_SETS, DescribeSetsRequest())
            assert ResponseCode.CONTROLLER_NOT_LEADER == answer.code
            assert b"" == answer.body

    run(main())


def stored(names: list[tuple[str, str]], brokers: int) -> MemorySpace:
    """
    Records of sets with so many brokers each.
    """
    driver = Brokers()
    for broker_id in range(1, brokers + 1):
        driver.join(broker_id)
    space = MemorySpace()
    store = MemoryStore(space)
    for cluster, name in names:
        state = replace(driver.state, cluster=cluster, name=name)
        store.commit([Put(set_key(cluster, name), encode(state))])
    return space


def test_all_sets_are_described_in_pages_each_once_and_in_order() -> None:
    """A damaged record is named; a set without brokers is none."""
    names = [(f"c{number % 3}", f"set-{number:04}") for number in range(1101)]
    draw = random.Random(7)
    draw.shuffle(names)
    space = stored(names, brokers=1)
    store = MemoryStore(space)
    store.commit([Put(set_key(*names[5]), b"ill")])
    empty = SetState("c1", "empty", version=3, next_id=4)
    store.commit([Put(set_key(*empty.key), encode(empty))])

    async def main() -> None:
        async with running(space) as at:
            found = await pages(at)
            assert [names[5]] == [each for one in found for each in one.damaged]
            told = [(each.cluster, each.name) for one in found for each in one.sets]
            assert sorted({*names} - {names[5]}) == told
            assert 3 == len(found)

    run(main())


def test_a_page_has_a_bounded_number_of_brokers() -> None:
    """An answer fits a frame, however many brokers sets have."""
    space = stored([("c", f"set-{number}") for number in range(60)], brokers=64)

    async def main() -> None:
        async with running(space) as at:
            found = await pages(at)
            counts = [sum(len(each.brokers) for each in one.sets) for one in found]
            assert 60 * 64 == sum(counts)
            assert max(counts) < 1_500 + 64
            assert 3 == len(found)

    run(main())


def test_an_empty_record_store_has_one_empty_page() -> None:
    """It is told under authority, too."""

    async def main() -> None:
        async with running() as at:
            (page,) = await pages(at)
            assert ((), ()) == (page.sets, page.damaged)

    run(main())


def test_one_set_is_described_alone() -> None:
    """For a worker, which needs one of thousands; a missing one is an empty page."""
    space = stored([("c", f"set-{number}") for number in range(600)], brokers=1)

    async def main() -> None:
        async with running(space) as at:
            for name, found in (("set-7", ["set-7"]), ("other", [])):
                header = DescribeSetsRequest(only_cluster="c", only_name=name)
                page, header = page_of(await at.ask(RequestCode.DESCRIBE_SETS, header))
                assert found == [each.name for each in page.sets]
                assert ("", "") == (header.after_cluster, header.after_name)

    run(main())
