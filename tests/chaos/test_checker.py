"""
Each rule of the checker finds what breaks it, and nothing in a history that is right.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from chaos.checker import RULES, Final, Record, masters_have_the_whole_log, violations
from chaos.history import Appended, Caused, History, Read, Row, Status, rows_of

ALL = Appended("1-1-", 0, "all", 10, 20, "b1", "reached", 1, 0, 0)
LEADER = Appended("2-1-", 0, "leader", 30, 40, "b1", "reached", 1, 100, 1)
NEWER = Appended("1-2-", 0, "all", 50, 60, "b2", "reached", 2, 200, 2)
NEWER_LEADER = Appended("2-2-", 0, "leader", 70, 80, "b2", "reached", 2, 300, 3)
REFUSED = Appended("3-1-", 0, "all", 70, 80, "b1", "not-master")
LEADS = Status("b1", 1, 15, 1, "master", 1, [1, 2], 0, 100)
FOLLOWS = Status("b2", 1, 15, 2, "following", 1, [1, 2], 0, 100)
READ = Read("b1", 1, 22, 23, 100, [(0, "1-1-")])
READ_AGAIN = Read("b1", 1, 41, 42, 200, [(100, "2-1-")])
HISTORY: list[Row] = [
    ALL,
    LEADER,
    NEWER,
    NEWER_LEADER,
    REFUSED,
    LEADS,
    FOLLOWS,
    READ,
    READ_AGAIN,
    Caused("master_is_killed", 1, 2),
]
FINAL = Final(
    0,
    [
        Record(0, 0, 0, "1-1-"),
        Record(100, 0, 1, "2-1-"),
        Record(200, 0, 2, "1-2-"),
        Record(300, 0, 3, "2-2-"),
    ],
)


def test_a_right_history_has_no_violation() -> None:
    """
    Also one whose oldest records were deleted, with a `leader` record that a new master
    does not have, and with acks of a new epoch during the lease of the old one.
    """
    assert [] == violations(HISTORY, FINAL)
    assert [] == violations(HISTORY, Final(100, FINAL.records[1:]))
    lost = [one for one in HISTORY if one is not READ_AGAIN]
    records = [
        replace(one, queue_offset=number)
        for number, one in enumerate([FINAL.records[0], *FINAL.records[2:]])
    ]
    told = [
        replace(one, queue_offset=one.queue_offset - 1)
        if one in (NEWER, NEWER_LEADER) and isinstance(one, Appended)
        else one
        for one in lost
    ]
    assert [] == violations(told, Final(0, records))
    leased = replace(LEADER, begin_ns=61, end_ns=65)
    assert [] == violations([ALL, NEWER, leased, NEWER_LEADER], FINAL)


@pytest.mark.parametrize(
    ("rule", "rows", "records"),
    [
        ("acknowledged_records_are_there", HISTORY, FINAL.records[1:]),
        (
            "acknowledged_records_are_there",
            [*HISTORY, replace(ALL, offset=50)],
            FINAL.records,
        ),
        (
            "acknowledged_records_are_there",
            [*HISTORY, replace(ALL, queue_offset=7)],
            FINAL.records,
        ),
        (
            "epochs_do_not_overlap",
            [*HISTORY, replace(ALL, begin_ns=61, end_ns=62)],
            FINAL.records,
        ),
        (
            "epochs_do_not_overlap",
            [*HISTORY, replace(LEADER, begin_ns=81, end_ns=82)],
            FINAL.records,
        ),
        (
            "confirm_offsets_do_not_go_back",
            [*HISTORY, replace(READ, begin_ns=43, end_ns=44)],
            FINAL.records,
        ),
        ("read_records_stay", [replace(READ, records=[(0, "x")])], FINAL.records),
        (
            "readers_see_what_was_acknowledged",
            [*HISTORY, replace(READ, confirm=0, records=[])],
            FINAL.records,
        ),
        ("queue_offsets_go_on_by_one", [], [FINAL.records[0], FINAL.records[2]]),
        ("each_record_was_asked_for_and_is_there_once", [ALL], FINAL.records),
        (
            "each_record_was_asked_for_and_is_there_once",
            HISTORY,
            [*FINAL.records, Record(400, 0, 4, "1-1-")],
        ),
        ("broker_ids_are_given_once", [LEADS, replace(FOLLOWS, broker_id=1)], []),
        ("broker_ids_are_given_once", [LEADS, replace(LEADS, broker_id=3)], []),
        ("one_broker_leads_an_epoch", [LEADS, replace(LEADS, broker="b2")], []),
        ("one_broker_leads_an_epoch", [LEADS, replace(NEWER, epoch=1)], []),
        ("masters_have_the_whole_log", [replace(LEADS, begin=100)], []),
    ],
)
def test_a_rule_finds_what_breaks_it(
    rule: str, rows: list[Row], records: list[Record]
) -> None:
    """
    A record that is gone or elsewhere, two epochs at once, an offset that goes back.
    """
    found = violations(rows, Final(0, records))
    assert rule in {one.split(":")[0] for one in found}, found
    assert rule in {one.__name__ for one in (*RULES, masters_have_the_whole_log)}


def test_a_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    """
    And it counts what `all` acknowledged.
    """
    path = tmp_path / "history.jsonl"
    with History(path) as history:
        history.add(*HISTORY)
        assert 2 == history.acked
    assert HISTORY == list(rows_of(path))
