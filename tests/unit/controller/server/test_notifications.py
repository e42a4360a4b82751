"""
The pending notifications of role changes.
"""

from __future__ import annotations

from lib.controller.broker_set_driver import incarnation

from pystore.controller.model.replies import MasterRecord
from pystore.controller.server.notifications import Notification, Notifications
from pystore.replicaset import AgreedSet, Member

SECOND = 1_000_000_000
SET = ("cluster", "set")


def _notice(
    epoch: int,
    set_epoch: int = 1,
    *,
    broker_id: int = 1,
    at: str = "a:1",
    java: int = 0,
) -> Notification:
    leadership = MasterRecord(Member(1, incarnation(1)), "a:1", epoch)
    agreed = AgreedSet(frozenset({leadership.master}), set_epoch)
    learners = frozenset({7})
    return Notification(SET, broker_id, at, leadership, agreed, learners, not java)


def test_only_the_newest_notification_is_kept() -> None:
    """By epoch, then by SyncStateSet epoch; older or equal ones are dropped."""
    notifications = Notifications()
    for one in (_notice(4, 2), _notice(5, 1), _notice(4, 9), _notice(5, 1)):
        notifications.put(one, 0)

    assert 0 == notifications.next_ns
    assert _notice(5, 1) == notifications.next(0)
    assert notifications.next(99 * SECOND) is None


def test_at_most_one_notification_per_broker_is_in_flight() -> None:
    """RMQ-R74: a slow broker delays no other broker, and gets the newest one then."""
    notifications = Notifications()
    notifications.put(_notice(4), 0)
    notifications.put(_notice(4, broker_id=2), 0)
    assert notifications.next(0) == _notice(4)

    notifications.put(_notice(5), 0)
    notifications.put(_notice(6), 0)

    assert _notice(4, broker_id=2) == notifications.next(0)
    assert notifications.next(99 * SECOND) is None
    notifications.sent(_notice(4), SECOND, 0.0, worked=True)
    assert _notice(6) == notifications.next(SECOND)


def test_a_broker_is_notified_until_it_confirms() -> None:
    """A successful send is no confirmation."""
    notifications = Notifications()
    notifications.put(_notice(4, 2), 0)
    for now, worked in ((0, False), (2 * SECOND, True), (4 * SECOND, True)):
        assert notifications.next(now - 1) is None
        assert notifications.next(now) == _notice(4, 2)
        notifications.sent(_notice(4, 2), now, 1.0, worked=worked)
        notifications.known(SET, 1, (4, 1))

    notifications.known(SET, 1, (4, 2))

    assert notifications.next(99 * SECOND) is None


def test_a_java_broker_is_notified_until_one_send_succeeds() -> None:
    """It never confirms, and polls by itself (RMQ-R75)."""
    notifications = Notifications()
    notifications.put(_notice(4, java=1), 0)
    for now, worked in ((0, False), (SECOND, True)):
        assert notifications.next(now) == _notice(4, java=1)
        notifications.sent(_notice(4, java=1), now, 0.0, worked=worked)

    assert notifications.next(99 * SECOND) is None


def test_a_broker_with_a_new_address_is_notified_there() -> None:
    """RMQ-R42: the same again, at once."""
    notifications = Notifications()
    notifications.put(_notice(4), 0)
    assert notifications.next(0) == _notice(4)
    notifications.put(_notice(4, at="b:2"), 0)
    notifications.sent(_notice(4), SECOND, 0.0, worked=False)

    assert _notice(4, at="b:2") == notifications.next(SECOND)


def test_a_dead_broker_is_not_notified() -> None:
    """A returning broker waits for the notification in flight."""
    notifications = Notifications()
    notifications.put(_notice(4), 0)
    assert notifications.next(0) == _notice(4)
    notifications.drop(SET, 1)
    notifications.put(_notice(5), 0)
    assert notifications.next(SECOND) is None

    notifications.sent(_notice(4), SECOND, 0.0, worked=True)
    assert _notice(5) == notifications.next(SECOND)

    notifications.drop(SET, 1)
    notifications.sent(_notice(5), SECOND, 0.0, worked=False)
    assert notifications.next(99 * SECOND) is None
