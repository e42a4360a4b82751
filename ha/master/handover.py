"""
Handing a mastership over to a slave, as one operation.

The slave catches up while appends go on. Then appends are refused, the slave receives
the rest, and the controller elects it. So the next master has every record of this
mastership, also those acknowledged as `leader`, which an election at any other moment
may cut.

Source: docs/replication.md, *Changing roles*; B7, C3.
"""

from __future__ import annotations

from collections.abc import Callable

from pystore.errors import InvalidError, UnavailableError
from pystore.ha.master.service import MasterService
from pystore.ha.master.write_authority import WriteAuthority

__all__ = ["NEAR_BYTES", "ElectSuccessor", "hand_over"]

NEAR_BYTES = 1 << 20
"""A slave that lags by less receives the rest within milliseconds."""

_LOOK_MS = 1

ElectSuccessor = Callable[[int, int], None]
"""
Lets the controller elect a broker in place of the master of an epoch; returns when it
has. Raises `UnavailableError`: it has not, and will not.
"""


def hand_over(
    service: MasterService,
    authority: WriteAuthority,
    epoch: int,
    broker_id: int,
    elect: ElectSuccessor,
    *,
    now_ms: Callable[[], int],
    timeout_ms: int,
) -> None:
    """
    Hands a mastership over. If that fails, this broker stays master.

    Args:
        service: of the mastership.
        authority: of this replica.
        epoch: of the mastership.
        broker_id: of the next master.
        elect: lets the controller elect it.
        now_ms: a clock that never steps back.
        timeout_ms: how long the slave may take to catch up, and then for the rest.

    Raises:
        InvalidError: no member of the SyncStateSet with a link has that id.
        UnavailableError: the slave did not catch up, or the controller did not elect
            it.
        FencedError: the mastership ended meanwhile.
    """
    members = {one.broker_id for one in service.monitor.set_now.members}
    if broker_id not in members:
        raise InvalidError(
            f"broker {broker_id} is no member of the SyncStateSet, which has "
            f"{sorted(members)}: only a member has every acknowledged record"
        )

    def lag() -> int:
        held = service.received_by(broker_id)
        if held is None:
            raise UnavailableError(
                f"broker {broker_id} has no link to the master: it stays master"
            )
        return service.end_offset - held

    def wait(bytes_max: int) -> None:
        until_ms = now_ms() + timeout_ms
        while (left := lag()) > bytes_max:
            if now_ms() >= until_ms:
                raise UnavailableError(
                    f"broker {broker_id} lags by {left} bytes after {timeout_ms} ms: "
                    "this broker stays master; try again when it has caught up"
                )
            service.monitor.rest(_LOOK_MS)

    wait(NEAR_BYTES)
    authority.hold(epoch, broker_id)
    try:
        wait(0)
        elect(broker_id, epoch)
    except BaseException:
        # Any error: this broker stays master. After its end the call changes nothing.
        authority.release(epoch)
        raise
