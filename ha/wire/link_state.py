"""
The five states of a link, and the transitions between them. Pure.

One literal table per role. `next_state` is total: an event that a table does not list
is a violation, a local one if the event is our own, a remote one if it came from the
peer. A remote violation closes the link. The protocol objects choose *which* event
happens, so the tables stay readable, and docs/replication.md draws its diagram from
them.

In words. A slave in READY connects and starts the handshake. When its log is cut to the
consistent point, it enters TRANSFER. A broken link leads back to READY. In SUSPEND the
link stays, and no bytes move. SHUTDOWN is final.

TRANSFER is entered from HANDSHAKE, and again from SUSPEND. SUSPEND is entered from
TRANSFER only. A suspension during the handshake is remembered until TRANSFER.

Source: docs/protocol.md (RMQ-K.3).
"""

from __future__ import annotations

from enum import Enum

from pystore.errors import LocalViolation, RemoteViolation
from pystore.ha.wire.codes import State

__all__ = ["MASTER", "SLAVE", "LinkEvent", "TransitionTable", "next_state"]


class LinkEvent(Enum):
    """
    An event of a link. Those that begin with RECEIVED came from the peer.
    """

    CONNECTED = "connected"
    ACCEPTED = "accepted"
    RECEIVED_HANDSHAKE = "received the handshake"
    RECEIVED_CHALLENGE = "received a challenge"
    RECEIVED_PROOF = "received a proof"
    RECEIVED_REFUSAL = "received a refusal"
    RECEIVED_EPOCHS = "received epochs"
    RECEIVED_QUEUES = "received queue offsets"
    RECEIVED_QUERY = "received a query"
    RECEIVED_TRUNCATE = "received the confirmation of the cut"
    RECEIVED_DATA = "received data"
    RECEIVED_ACK = "received an ack"
    RECEIVED_FIRST_ACK = "received the first ack"
    LOG_CUT = "the log was cut"
    LOG_APPENDED = "the log was appended to"
    AGREED = "the consistent point was found"
    NO_COMMON_POINT = "there is no consistent point"
    SUSPEND = "suspend"
    RESUME = "resume"
    LOST = "the link ended"
    SHUTDOWN = "shutdown"

    @property
    def is_from_peer(self) -> bool:
        """
        Whether the peer caused it.
        """
        return self.name.startswith("RECEIVED")


TransitionTable = dict[tuple[State, LinkEvent], State]

_R, _H, _T, _P, _S = State

# A slave's own events that come after the end of the link change nothing. A master
# may refuse a handshake, or a confirmed cut; by then the slave may be in a later
# state (RMQ-K.3). In TRANSFER only a legacy slave cuts: where arriving bytes
# differ from its own (formats 6.4).
SLAVE: TransitionTable = {
    (_R, LinkEvent.CONNECTED): _H,
    (_R, LinkEvent.LOG_CUT): _R,
    (_R, LinkEvent.LOG_APPENDED): _R,
    (_R, LinkEvent.SUSPEND): _R,
    (_R, LinkEvent.RESUME): _R,
    (_R, LinkEvent.LOST): _R,
    (_R, LinkEvent.SHUTDOWN): _S,
    (_H, LinkEvent.RECEIVED_HANDSHAKE): _H,
    (_H, LinkEvent.RECEIVED_CHALLENGE): _H,
    (_H, LinkEvent.RECEIVED_REFUSAL): _R,
    (_H, LinkEvent.RECEIVED_EPOCHS): _H,
    (_H, LinkEvent.RECEIVED_QUEUES): _H,
    (_H, LinkEvent.LOG_CUT): _H,
    (_H, LinkEvent.LOG_APPENDED): _H,
    (_H, LinkEvent.AGREED): _T,
    (_H, LinkEvent.NO_COMMON_POINT): _R,
    (_H, LinkEvent.SUSPEND): _H,
    (_H, LinkEvent.RESUME): _H,
    (_H, LinkEvent.LOST): _R,
    (_H, LinkEvent.SHUTDOWN): _S,
    (_T, LinkEvent.RECEIVED_DATA): _T,
    (_T, LinkEvent.RECEIVED_REFUSAL): _R,
    (_T, LinkEvent.LOG_CUT): _T,
    (_T, LinkEvent.LOG_APPENDED): _T,
    (_T, LinkEvent.SUSPEND): _P,
    (_T, LinkEvent.RESUME): _T,
    (_T, LinkEvent.LOST): _R,
    (_T, LinkEvent.SHUTDOWN): _S,
    (_P, LinkEvent.RECEIVED_DATA): _P,
    (_P, LinkEvent.RECEIVED_REFUSAL): _R,
    (_P, LinkEvent.LOG_CUT): _P,
    (_P, LinkEvent.LOG_APPENDED): _P,
    (_P, LinkEvent.SUSPEND): _P,
    (_P, LinkEvent.RESUME): _T,
    (_P, LinkEvent.LOST): _R,
    (_P, LinkEvent.SHUTDOWN): _S,
    **{(_S, event): _S for event in LinkEvent},
}

# A legacy slave repeats its handshake until the answer comes (formats 6.5), and its
# first ack is what CONFIRM_TRUNCATE is in v3.
MASTER: TransitionTable = {
    (_R, LinkEvent.ACCEPTED): _H,
    (_R, LinkEvent.SUSPEND): _R,
    (_R, LinkEvent.RESUME): _R,
    (_R, LinkEvent.LOST): _R,
    (_R, LinkEvent.SHUTDOWN): _S,
    (_H, LinkEvent.RECEIVED_HANDSHAKE): _H,
    (_H, LinkEvent.RECEIVED_PROOF): _H,
    (_H, LinkEvent.RECEIVED_QUERY): _H,
    (_H, LinkEvent.RECEIVED_TRUNCATE): _T,
    (_H, LinkEvent.RECEIVED_FIRST_ACK): _T,
    (_H, LinkEvent.SUSPEND): _H,
    (_H, LinkEvent.RESUME): _H,
    (_H, LinkEvent.LOST): _R,
    (_H, LinkEvent.SHUTDOWN): _S,
    (_T, LinkEvent.RECEIVED_ACK): _T,
    (_T, LinkEvent.SUSPEND): _P,
    (_T, LinkEvent.RESUME): _T,
    (_T, LinkEvent.LOST): _R,
    (_T, LinkEvent.SHUTDOWN): _S,
    (_P, LinkEvent.RECEIVED_ACK): _P,
    (_P, LinkEvent.SUSPEND): _P,
    (_P, LinkEvent.RESUME): _T,
    (_P, LinkEvent.LOST): _R,
    (_P, LinkEvent.SHUTDOWN): _S,
    **{(_S, event): _S for event in LinkEvent},
}


def next_state(table: TransitionTable, state: State, event: LinkEvent) -> State:
    """
    Returns where *event* leads from *state*.

    Raises:
        RemoteViolation: the peer sent what this state does not allow.
        LocalViolation: the caller did what this state does not allow.
    """
    following = table.get((state, event))
    if following is not None:
        return following
    kind = RemoteViolation if event.is_from_peer else LocalViolation
    raise kind(f"{event.value} in state {state.name}")
