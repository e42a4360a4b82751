"""
What both protocols share: how links end.
"""

from __future__ import annotations

import pytest
from lib.ha.slave_owner import ShortLog

from pystore.errors import LocalViolation
from pystore.ha.slave.config import SlaveConfig
from pystore.ha.slave.effects import LeaveMaster, Retry
from pystore.ha.slave.protocol import MasterLink
from pystore.ha.slave.protocol_legacy import LegacySlaveProtocol
from pystore.ha.slave.protocol_v3 import V3SlaveProtocol
from pystore.ha.wire.codes import State
from pystore.ha.wire.effects import Promise

TERMS = SlaveConfig("c", "b", 1, epoch=3)
LOG = ShortLog().view()

both = pytest.mark.parametrize("kind", [V3SlaveProtocol, LegacySlaveProtocol])


@both
def test_a_lost_link_is_ready_again(kind: type[MasterLink]) -> None:
    """
    Inputs that come late change nothing.
    """
    link = kind(TERMS)
    link.connected(LOG, 0)
    link.effects()
    link.lost("reset")
    link.tick(1_000_000)
    link.drained(1_000_000)
    link.did(Promise(3), LOG, 0)
    link.flushed(LOG, 0)

    assert link.receive(memoryview(b"late"), 0) == 4
    assert [] == link.effects()
    assert State.READY is link.state
    assert link.next_deadline() is None


@both
def test_a_link_connects_once(kind: type[MasterLink]) -> None:
    """
    Our own mistake is an error, not a close.
    """
    link = kind(TERMS)
    link.connected(LOG, 0)

    with pytest.raises(LocalViolation):
        link.connected(LOG, 0)


@both
def test_a_promise_above_the_controllers_word_asks_again(
    kind: type[MasterLink],
) -> None:
    """
    B6: nothing is sent under the lower epoch.
    """
    log = ShortLog()
    log.promised = 4
    link = kind(TERMS)
    link.connected(log.view(), 0)

    (close,) = link.effects()
    assert isinstance(close, LeaveMaster)
    assert close.retry is Retry.ASK_CONTROLLER


@both
def test_a_shutdown_before_anything_is_quiet(kind: type[MasterLink]) -> None:
    """
    There is no peer to tell.
    """
    link = kind(TERMS)
    link.shutdown(0)

    assert [] == link.effects()
    assert State.SHUTDOWN is link.state
