"""
The states of a connection: frozen tables, and a function that answers everything.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystore.errors import LocalViolation, RemoteViolation
from pystore.ha.wire.codes import State
from pystore.ha.wire.link_state import (
    MASTER,
    SLAVE,
    LinkEvent,
    TransitionTable,
    next_state,
)

# One row per event; columns READY, HANDSHAKE, TRANSFER, SUSPEND by first letter
# (SHUTDOWN is X); a dot is a violation. SHUTDOWN absorbs everything.
SLAVE_ROWS = """
CONNECTED       H . . .
RECEIVED_HANDSHAKE . H . .
RECEIVED_CHALLENGE . H . .
RECEIVED_REFUSAL   . R R R
RECEIVED_EPOCHS    . H . .
RECEIVED_QUEUES    . H . .
RECEIVED_DATA      . . T S
LOG_CUT         R H T S
LOG_APPENDED    R H T S
AGREED          . T . .
NO_COMMON_POINT . R . .
SUSPEND         R H S S
RESUME          R H T T
LOST            R R R R
SHUTDOWN        X X X X
"""
MASTER_ROWS = """
ACCEPTED        H . . .
RECEIVED_HANDSHAKE . H . .
RECEIVED_PROOF     . H . .
RECEIVED_QUERY     . H . .
RECEIVED_TRUNCATE  . T . .
RECEIVED_ACK       . . T S
RECEIVED_FIRST_ACK . T . .
SUSPEND         R H S S
RESUME          R H T T
LOST            R R R R
SHUTDOWN        X X X X
"""
LETTERS = dict(zip("RHTSX", State, strict=True))
ROLES = pytest.mark.parametrize("table", [SLAVE, MASTER], ids=["slave", "master"])


def read_rows(rows: str) -> TransitionTable:
    """
    Returns the table that the rows spell.
    """
    table = {(State.SHUTDOWN, event): State.SHUTDOWN for event in LinkEvent}
    for row in rows.strip().splitlines():
        name, *letters = row.split()
        for state, letter in zip(State, letters, strict=False):
            if letter != ".":
                table[state, LinkEvent[name]] = LETTERS[letter]
    return table


@pytest.mark.parametrize(
    ("rows", "table"), [(SLAVE_ROWS, SLAVE), (MASTER_ROWS, MASTER)]
)
def test_the_tables_are_frozen(rows: str, table: TransitionTable) -> None:
    """
    A change of a transition changes this test, too.
    """
    assert read_rows(rows) == table


@ROLES
@pytest.mark.parametrize("event", LinkEvent)
@pytest.mark.parametrize("state", State)
def test_every_state_has_an_answer_to_every_event(
    table: TransitionTable, state: State, event: LinkEvent
) -> None:
    """
    A state, or a violation of the side that caused the event; never anything else.
    """
    if (state, event) in table:
        assert table[state, event] == next_state(table, state, event)
        return
    is_from_peer = event.name.startswith("RECEIVED")
    with pytest.raises(
        RemoteViolation if is_from_peer else LocalViolation,
        match=f"^{event.value} in state {state.name}$",
    ):
        next_state(table, state, event)


@ROLES
def test_transfer_is_entered_from_the_handshake_or_from_a_pause(
    table: TransitionTable,
) -> None:
    """
    No side sends or takes bytes before histories were compared.
    """
    before = {a for (a, _), b in table.items() if b == State.TRANSFER}

    assert {State.HANDSHAKE, State.TRANSFER, State.SUSPEND} == before
    assert next_state(table, State.SUSPEND, LinkEvent.RESUME) == State.TRANSFER


@ROLES
def test_only_a_link_that_transfers_can_be_suspended(table: TransitionTable) -> None:
    """
    Else to resume would lead a link into TRANSFER that is none, or has agreed on
    nothing.
    """
    before = {a for (a, _), b in table.items() if b == State.SUSPEND}

    assert {State.TRANSFER, State.SUSPEND} == before


@ROLES
def test_whatever_breaks_the_link_leads_back_to_ready(table: TransitionTable) -> None:
    """
    From everywhere but the end.
    """
    for state in State:
        expected = State.SHUTDOWN if state == State.SHUTDOWN else State.READY
        assert expected == next_state(table, state, LinkEvent.LOST)


@ROLES
@given(events=st.lists(st.sampled_from(LinkEvent)))
def test_shutdown_is_never_left(
    table: TransitionTable, events: list[LinkEvent]
) -> None:
    """
    Whatever comes late.
    """
    state = State.SHUTDOWN
    for event in events:
        state = next_state(table, state, event)

    assert State.SHUTDOWN == state


@ROLES
@given(events=st.lists(st.sampled_from(LinkEvent), max_size=30))
def test_no_way_leads_to_bytes_around_the_handshake(
    table: TransitionTable, events: list[LinkEvent]
) -> None:
    """
    On any way, violations left out, TRANSFER comes after an agreement of this link.
    """
    state, has_agreed = State.READY, False
    for event in events:
        if (state, event) not in table:
            continue
        state = next_state(table, state, event)
        if state in (State.READY, State.SHUTDOWN):
            has_agreed = False
        elif event in (
            LinkEvent.AGREED,
            LinkEvent.RECEIVED_TRUNCATE,
            LinkEvent.RECEIVED_FIRST_ACK,
        ):
            has_agreed = True
        assert has_agreed or state not in (State.TRANSFER, State.SUSPEND)


def test_a_wish_of_the_operator_is_no_violation_in_any_state() -> None:
    """
    The caller of suspend, resume or shutdown does not know the state of a link.
    """
    for table in (SLAVE, MASTER):
        for event in (LinkEvent.SUSPEND, LinkEvent.RESUME, LinkEvent.SHUTDOWN):
            assert all((state, event) in table for state in State)
