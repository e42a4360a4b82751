"""
The picture of a timeline: every lane and mark is there, and no text covers another.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from xml.etree import ElementTree as ET

import pytest

from pystore.demo.timeline import (
    AckGap,
    BrokerState,
    MarkKind,
    Timeline,
    TimelineEvent,
)
from pystore.demo.timeline_svg import render_timeline, text_width

NAME = "{http://www.w3.org/2000/svg}"
CONTENT_S = 24.0


def a_timeline(scale: float = 1.0) -> Timeline:
    """
    A run as the demo makes it, so many times as long.
    """
    timeline = Timeline((1, 2, 3), end_s=CONTENT_S * scale)
    marks = [
        (6.9, MarkKind.KILL, "SIGKILL broker 1"),
        (9.5, MarkKind.RESTART, "broker 1 back"),
        (15.0, MarkKind.SWITCH, "switch to broker 1"),
        (17.8, MarkKind.CONTROLLER, "SIGKILL controller 1"),
        (21.2, MarkKind.CONTROLLER, "controller 1 leads"),
    ]
    for at_s, mark, label in marks:
        timeline.events.append(TimelineEvent(at_s * scale, "demo", "x", mark, label))
        timeline.events.append(TimelineEvent(at_s * scale, "writer", "no mark"))
    states = [
        (0.5, 1, BrokerState("starting")),
        (1.2, 1, BrokerState("idle", 0)),
        (1.5, 1, BrokerState("master", 1, 1)),
        (1.6, 2, BrokerState("starting")),
        (2.5, 2, BrokerState("following", 1, 1)),
        (3.5, 3, BrokerState("following", 1, 1)),
        (6.0, 2, BrokerState("paused")),
        (6.0, 3, BrokerState("paused")),
        (6.9, 1, BrokerState("down")),
        (7.0, 2, BrokerState("master", 2, 2)),
        (7.0, 3, BrokerState("following", 2, 2)),
        (9.5, 1, BrokerState("starting")),
        (12.1, 1, BrokerState("following", 2, 2)),
        (15.2, 1, BrokerState("pending", 3, 1)),
        (15.3, 1, BrokerState("master", 3, 1)),
    ]
    for at_s, broker, state in states:
        timeline.change(at_s * scale, broker, state)
    timeline.acks = [
        ((number * 0.02 + 0.001) * scale, 128) for number in range(180, 1190)
    ]
    timeline.gaps = [
        AckGap(6.0 * scale, 7.1 * scale, "master killed", 6.9 * scale),
        AckGap(15.2 * scale, 15.3 * scale, "planned switch", 15.0 * scale),
        AckGap(20.9 * scale, 21.0 * scale, "controller killed", 17.8 * scale),
    ]
    return timeline


def drawn(timeline: Timeline) -> ET.Element:
    """
    The picture, parsed.
    """
    return ET.fromstring(render_timeline(timeline, "A title", "A summary & more"))


def boxes(svg: ET.Element) -> Iterator[tuple[str, float, float, float, float]]:
    """
    Each text with the left, top, right and bottom of its box.
    """
    for one in svg.iter(f"{NAME}text"):
        text, size = one.text or "", float(one.attrib["font-size"])
        x, y = float(one.attrib["x"]), float(one.attrib["y"])
        width = text_width(text, size)
        left = x - width if one.get("text-anchor") == "end" else x
        yield text, left, y - 0.8 * size, left + width, y + 0.25 * size


@pytest.mark.parametrize("scale", [0.05, 0.2, 1.0, 4.0])
def test_no_text_covers_another_or_leaves_the_picture(scale: float) -> None:
    """
    In a run of a second, too, and in one of minutes.
    """
    svg = drawn(a_timeline(scale))
    width, height = (float(svg.attrib[name]) for name in ("width", "height"))
    found = list(boxes(svg))

    for text, left, top, right, bottom in found:
        assert 0 <= left, text
        assert right <= width, text
        assert 0 <= top, text
        assert bottom <= height, text
    for one, other in combinations(found, 2):
        is_apart = (
            one[3] <= other[1]
            or other[3] <= one[1]
            or one[4] <= other[2]
            or other[4] <= one[2]
        )
        assert is_apart, (one, other)


def test_marks_close_to_each_other_have_rows_of_their_own() -> None:
    """
    Ten within a tenth of a second; no line goes through a text.
    """
    timeline = a_timeline()
    timeline.events = [
        TimelineEvent(
            10 + number / 100, "demo", "x", MarkKind.KILL, f"SIGKILL {number}"
        )
        for number in range(10)
    ]
    svg = drawn(timeline)
    labels = [box for box in boxes(svg) if box[0].startswith("SIGKILL")]

    assert 10 == len({top for _, _, top, _, _ in labels})
    for line in svg.iter(f"{NAME}line"):
        if line.get("class") == "mark":
            x, y = float(line.attrib["x1"]), float(line.attrib["y1"])
            for _, left, _, right, bottom in labels:
                assert not (left < x < right and y < bottom), (x, left, right)


def test_each_broker_has_a_lane_with_its_roles_in_order() -> None:
    """
    With a colour for each role, and its name where there is room.
    """
    svg = drawn(a_timeline())
    lanes = {
        group.attrib["data-broker"]: list(group.iter(f"{NAME}rect"))
        for group in svg.iter(f"{NAME}g")
        if group.get("class") == "lane"
    }

    assert ["1", "2", "3"] == list(lanes)
    roles = [area.attrib["data-role"] for area in lanes["1"]]
    assert [
        "starts",
        "master",
        "down",
        "starts",
        "slave",
        "changes its role",
        "master",
    ] == roles
    colours = {area.attrib["data-role"]: area.attrib["fill"] for area in lanes["1"]}
    assert len(colours) == len(set(colours.values()))
    texts = [text for text, *_ in boxes(svg)]
    assert "master, epoch 1" in texts
    assert "slave of 2, epoch 2" in texts


def test_each_mark_has_a_line_at_its_time_and_a_text() -> None:
    """
    Other events have none.
    """
    timeline = a_timeline()
    svg = drawn(timeline)
    lines = [one for one in svg.iter(f"{NAME}line") if one.get("class", "") == "mark"]
    kinds = [line.attrib["data-kind"] for line in lines]

    assert ["kill", "restart", "switch", "controller", "controller"] == kinds
    places = [float(line.attrib["x1"]) for line in lines]
    assert sorted(places) == places
    per_s = (places[-1] - places[0]) / (21.2 - 6.9)
    assert places[1] - places[0] == pytest.approx((9.5 - 6.9) * per_s, abs=0.2)
    texts = {text for text, *_ in boxes(svg)}
    assert {one.label for one in timeline.events if one.mark} <= texts


def test_the_lane_of_acks_has_a_bar_for_each_step_with_acks() -> None:
    """
    None where there were none, and none beyond the axis.
    """
    svg = drawn(a_timeline())
    (group,) = (g for g in svg.iter(f"{NAME}g") if g.get("class") == "acks")
    (path,) = group.iter(f"{NAME}path")
    bars = path.attrib["d"].split("M")[1:]

    assert len({int(at_s / 0.1) for at_s, _ in a_timeline().acks}) == len(bars)
    assert "to 640" in {text for text, *_ in boxes(svg)}


def test_each_gap_is_drawn_with_its_length() -> None:
    """
    Of one that began before its cause, the time after it comes first.
    """
    svg = drawn(a_timeline())
    texts = {text for text, *_ in boxes(svg)}

    assert 3 == sum(g.get("class") == "gap" for g in svg.iter(f"{NAME}g"))
    assert "master killed: 200 ms after it, 1.1 s in all" in texts
    assert "planned switch: 100 ms" in texts


def test_an_empty_run_is_a_picture_too() -> None:
    """
    As after an error at once.
    """
    svg = drawn(Timeline((1,)))

    assert f"{NAME}svg" == svg.tag


def a_hosted_timeline() -> Timeline:
    """
    A run with AutoRecovery: hosts, damage, orders, and a queue.
    """
    timeline = Timeline((1, 2, 3, 4, 5), lane="host", end_s=120.0)
    timeline.events = [
        TimelineEvent(at_s, "demo", "x", mark, label)
        for at_s, mark, label in (
            (20.0, MarkKind.DAMAGE, "a bit rots"),
            (20.1, MarkKind.DAMAGE, "a file vanishes on host 2"),
            (24.0, MarkKind.REPAIRED, "right again"),
            (25.0, MarkKind.KILL, "SIGKILL host 3"),
            (60.0, MarkKind.ORDER, "drain host 1"),
            (119.0, MarkKind.REPAIRED, "right again"),
        )
    ]
    for at_s, number, role, carries in (
        (1.0, 1, "serving", "4 replicas, 2 masters"),
        (1.0, 2, "serving", "4 replicas, 1 master"),
        (1.0, 3, "serving", "4 replicas, 1 master"),
        (1.0, 4, "spare", ""),
        (25.0, 3, "down", ""),
        (33.0, 4, "filling", "4 replicas, 0 masters"),
        (60.0, 1, "emptying", "4 replicas, 2 masters"),
    ):
        timeline.change(at_s, number, BrokerState(role, carries=carries))
    timeline.acks = [(number * 0.05, 128) for number in range(300, 2380)]
    timeline.queue = [(21.0, 1, 0), (23.5, 0, 0), (34.0, 40, 0), (50.0, 0, 1)]
    timeline.gaps = [AckGap(24.9, 30.0, "a host dies, set-3", 25.0)]
    return timeline


def test_a_run_with_recovery_has_hosts_a_queue_and_their_roles() -> None:
    """
    No text covers another; each area says what the host carries where it fits.
    """
    svg = drawn(a_hosted_timeline())
    found = list(boxes(svg))
    texts = [one[0] for one in found]

    assert [f"host {number}" for number in range(1, 6)] == [
        one for one in texts if one.startswith("host ")
    ]
    assert "serves: 4 replicas, 2 masters" in texts
    assert {"serves", "gets new replicas", "is emptied", "spare", "down"} <= set(texts)
    assert "master" not in texts
    (queue,) = (one for one in svg.iter(f"{NAME}g") if one.get("class") == "queue")
    marked, dead = (one.attrib["d"] for one in queue.iter(f"{NAME}path"))
    assert (2, 1) == (marked.count("z"), dead.count("z"))
    for one, other in combinations(found, 2):
        is_apart = (
            one[3] <= other[1]
            or other[3] <= one[1]
            or one[4] <= other[2]
            or other[4] <= one[2]
        )
        assert is_apart, (one, other)
