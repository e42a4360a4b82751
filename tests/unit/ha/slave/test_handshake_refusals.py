"""
What each refusal of a master means.
"""

from __future__ import annotations

import pytest
from lib.ha.scripted_v3_master import SHAKE
from lib.values import replace

from pystore.ha.slave.effects import Retry
from pystore.ha.slave.handshake import leave_for_refusal
from pystore.ha.wire.codes import CheckResult

RETRIES = {
    CheckResult.REJECTED: Retry.SOON,
    CheckResult.CLUSTER_NAME: Retry.OPERATOR,
    CheckResult.BROKER_NAME: Retry.OPERATOR,
    CheckResult.BROKER_ID: Retry.OPERATOR,
    CheckResult.PROTOCOL: Retry.OPERATOR,
    CheckResult.APP_VERSION: Retry.OPERATOR,
    CheckResult.NOT_MASTER: Retry.ASK_CONTROLLER,
    CheckResult.STALE_EPOCH: Retry.ASK_CONTROLLER,
    CheckResult.FUTURE_EPOCH: Retry.ASK_CONTROLLER,
    CheckResult.STORE_LAYOUT: Retry.OPERATOR,
    CheckResult.BUSY: Retry.SOON,
    CheckResult.DUPLICATE: Retry.SOON,
}


@pytest.mark.parametrize("result", [r for r in CheckResult if r])
def test_each_refusal_says_what_the_slave_does_next(result: CheckResult) -> None:
    """
    RMQ-K.3, and the reason is one line whatever the peer wrote.
    """
    refusal = replace(SHAKE, result=result, reason="be\ncause", redirect="h:1")
    close = leave_for_refusal(refusal)

    assert RETRIES[result] is close.retry
    assert close.reason.startswith(f"{result.name}: ")
    assert close.reason.endswith("(be cause)")
    assert ("h:1" if result is CheckResult.NOT_MASTER else "") == close.redirect
