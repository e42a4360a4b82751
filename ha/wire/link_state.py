"""
The five states of a connection, and what leads from one to another. Pure.

One literal table per role. `next_state` is total: what a table does not list is a
violation, ours if the event is ours, the peer's if it came over the wire; the
connection turns the latter into a close. Guards choose *which* event happens, so a
table stays readable, and docs/replication.md draws its diagram from it.

In words. A slave that is READY connects and shakes hands; when its log meets the
master's history it goes over to TRANSFER. Whatever breaks the link leads back to
READY. SUSPEND keeps the link, and no bytes move. SHUTDOWN is never left.

TRANSFER is entered from HANDSHAKE, and again from SUSPEND; SUSPEND from TRANSFER
alone, because only a link can be suspended. Who is to pause earlier stays where it
is and remembers the wish: it agrees first, then suspends.

Source: style 4.5 of the design, docs/protocol.md (K.3).
"""

from __future__ import annotations

from enum import Enum

from pystore.errors import LocalViolation, RemoteViolation
from pystore.ha.wire.codes import State

__all__ = ["MASTER", "SLAVE", "LinkEvent", "TransitionTable", "next_state"]


class LinkEvent(Enum):
    """
    What moves a connection. Those that begin with HEARD came over the wire.
    """

    CONNECTED = "connected"
    ACCEPTED = "accepted"
    HEARD_HANDSHAKE = "heard the handshake"
    HEARD_REFUSAL = "heard a refusal"
    HEARD_EPOCHS = "heard epochs"
    HEARD_QUERY = "heard a query for epochs"
    HEARD_TRUNCATE = "heard the confirmed cut"
    HEARD_DATA = "heard data"
    HEARD_ACK = "heard an ack"
    HEARD_FIRST_ACK = "heard the first ack"
    LOG_CUT = "the log was cut"
    LOG_APPENDED = "the log was appended to"
    AGREED = "histories agree"
    NO_COMMON_POINT = "histories have no common point"
    SUSPEND = "suspend"
    RESUME = "resume"
    LOST = "the link is gone"
    SHUTDOWN = "shutdown"

    @property
    def is_heard(self) -> bool:
        """
        Whether the peer caused it.
        """
        return self.name.startswith("HEARD")


TransitionTable = dict[tuple[State, LinkEvent], State]

_R, _H, _T, _P, _S = State

# A slave's own events that come late, after the link is gone, change nothing. A
# master refuses a handshake, or a cut that was confirmed; by then the slave may
# have gone on (K.3). In TRANSFER only a legacy slave cuts: where arriving bytes
# differ from its own (formats 6.4).
SLAVE: TransitionTable = {
    (_R, LinkEvent.CONNECTED): _H,
    (_R, LinkEvent.LOG_CUT): _R,
    (_R, LinkEvent.LOG_APPENDED): _R,
    (_R, LinkEvent.SUSPEND): _R,
    (_R, LinkEvent.RESUME): _R,
    (_R, LinkEvent.LOST): _R,
    (_R, LinkEvent.SHUTDOWN): _S,
    (_H, LinkEvent.HEARD_HANDSHAKE): _H,
    (_H, LinkEvent.HEARD_REFUSAL): _R,
    (_H, LinkEvent.HEARD_EPOCHS): _H,
    (_H, LinkEvent.LOG_CUT): _H,
    (_H, LinkEvent.LOG_APPENDED): _H,
    (_H, LinkEvent.AGREED): _T,
    (_H, LinkEvent.NO_COMMON_POINT): _R,
    (_H, LinkEvent.SUSPEND): _H,
    (_H, LinkEvent.RESUME): _H,
    (_H, LinkEvent.LOST): _R,
    (_H, LinkEvent.SHUTDOWN): _S,
    (_T, LinkEvent.HEARD_DATA): _T,
    (_T, LinkEvent.HEARD_REFUSAL): _R,
    (_T, LinkEvent.LOG_CUT): _T,
    (_T, LinkEvent.LOG_APPENDED): _T,
    (_T, LinkEvent.SUSPEND): _P,
    (_T, LinkEvent.RESUME): _T,
    (_T, LinkEvent.LOST): _R,
    (_T, LinkEvent.SHUTDOWN): _S,
    (_P, LinkEvent.HEARD_DATA): _P,
    (_P, LinkEvent.HEARD_REFUSAL): _R,
    (_P, LinkEvent.LOG_CUT): _P,
    (_P, LinkEvent.LOG_APPENDED): _P,
    (_P, LinkEvent.SUSPEND): _P,
    (_P, LinkEvent.RESUME): _T,
    (_P, LinkEvent.LOST): _R,
    (_P, LinkEvent.SHUTDOWN): _S,
    **{(_S, event): _S for event in LinkEvent},
}

# A legacy slave repeats its handshake until it was answered (formats 6.5), and its
# first ack is what CONFIRM_TRUNCATE is in v3.
MASTER: TransitionTable = {
    (_R, LinkEvent.ACCEPTED): _H,
    (_R, LinkEvent.SUSPEND): _R,
    (_R, LinkEvent.RESUME): _R,
    (_R, LinkEvent.LOST): _R,
    (_R, LinkEvent.SHUTDOWN): _S,
    (_H, LinkEvent.HEARD_HANDSHAKE): _H,
    (_H, LinkEvent.HEARD_QUERY): _H,
    (_H, LinkEvent.HEARD_TRUNCATE): _T,
    (_H, LinkEvent.HEARD_FIRST_ACK): _T,
    (_H, LinkEvent.SUSPEND): _H,
    (_H, LinkEvent.RESUME): _H,
    (_H, LinkEvent.LOST): _R,
    (_H, LinkEvent.SHUTDOWN): _S,
    (_T, LinkEvent.HEARD_ACK): _T,
    (_T, LinkEvent.SUSPEND): _P,
    (_T, LinkEvent.RESUME): _T,
    (_T, LinkEvent.LOST): _R,
    (_T, LinkEvent.SHUTDOWN): _S,
    (_P, LinkEvent.HEARD_ACK): _P,
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
        RemoteViolation: the peer said what this state does not allow.
        LocalViolation: our own caller did.
    """
    following = table.get((state, event))
    if following is not None:
        return following
    kind = RemoteViolation if event.is_heard else LocalViolation
    raise kind(f"{event.value} in state {state.name}")
