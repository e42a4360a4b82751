"""
The timeline of a replicated run as a picture: SVG without a library. Pure.

From the top: what was done to the set, a lane for each broker or host with its role
over time, in a run with AutoRecovery the segments that lack a good copy, a lane with
the acknowledged records of each 100 ms, the gaps between acknowledgements, and the
seconds. Each role has a colour and a text, and the colours differ in lightness, too
(Okabe and Ito, *Color Universal Design*).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from xml.etree import ElementTree as ET

from pystore.demo.timeline import AckGap, BrokerState, LaneSpan, MarkKind, Timeline
from pystore.text import count_text, seconds_text

__all__ = ["STEP_S", "render_timeline", "text_width"]

STEP_S = 0.1
"""The time of one bar of the lane of acknowledgements."""

_WIDTH, _LEFT, _RIGHT = 1200, 110, 80
_PLOT = _WIDTH - _LEFT - _RIGHT
_LANE, _BETWEEN, _ACKS, _QUEUE = 34, 10, 110, 48
_ROW = 18
_TEXT, _SMALL = 13, 12
_FONT = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif"
_EM = 0.62
"""The mean width of a character, of the size of the text: that of a wide font."""
_TICKS_MAX = 16


@dataclass(frozen=True, slots=True)
class _Look:
    """
    How a role is drawn: its name, the colours of the area and of its text.
    """

    name: str
    fill: str
    ink: str = "#000000"
    border: str = "#ffffff"
    dashes: str = ""


_LOOKS = {
    "master": _Look("master", "#0072b2", "#ffffff"),
    "following": _Look("slave", "#9fd3f2"),
    "pending": _Look("changes its role", "#e69f00"),
    "starting": _Look("starts", "#e4e4e4"),
    "paused": _Look("paused", "#f5ec7a", border="#7a7400", dashes="4 2"),
    "down": _Look("down", "#ffffff", "#5a5a5a", "#5a5a5a", "3 3"),
}
_HOST_LOOKS = {
    "serving": _Look("serves", "#9fd3f2"),
    "filling": _Look("gets new replicas", "#e69f00"),
    "emptying": _Look("is emptied", "#f5ec7a", border="#7a7400", dashes="4 2"),
    "spare": _Look("spare", "#e4e4e4"),
    "down": _LOOKS["down"],
}
_ALIKE = {"idle": "starting", "resigned": "pending", "shutdown": "down"}
_MARKS = {
    MarkKind.KILL: ("#d55e00", ""),
    MarkKind.RESTART: ("#00805d", "7 3"),
    MarkKind.SWITCH: ("#a2447f", "2 3"),
    MarkKind.CONTROLLER: ("#000000", "10 3 2 3"),
    MarkKind.DAMAGE: ("#b34700", "4 3"),
    MarkKind.REPAIRED: ("#00805d", "1 3"),
    MarkKind.ORDER: ("#a2447f", "2 3"),
}
_ACK_COLOUR, _GAP_COLOUR = "#86cdb5", "#b34700"
_QUEUE_COLOUR, _DEAD_COLOUR = "#e8b27d", "#000000"


def text_width(text: str, size: float) -> float:
    """
    Returns about how wide a text is, rather too much than too little.
    """
    return len(text) * size * _EM


def render_timeline(timeline: Timeline, title: str, summary: str) -> str:
    """
    Returns the picture.

    Args:
        timeline: its end is above 0.
        title: its headline.
        summary: the line below.
    """
    return _Picture(timeline).render(title, summary)


class _Picture:
    """
    One picture: shapes are added from the top to the bottom.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._marks = [one for one in timeline.events if one.mark is not None]
        self._mark_rows: list[int] = []
        self._looks = _HOST_LOOKS if timeline.lane == "host" else _LOOKS
        self._svg = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg"})
        self._background = self._add("rect", fill="#ffffff", x=0, y=0)

    def render(self, title: str, summary: str) -> str:
        """
        Returns the text of the file.
        """
        self._text(16, 30, title, 18, weight="bold")
        self._text(16, 52, summary, _TEXT)
        self._legend(74)
        top = 92
        lanes_at = self._mark_labels(top)
        acks_at = lanes_at + len(self._timeline.brokers) * (_LANE + _BETWEEN)
        if self._timeline.queue:
            self._queue(acks_at)
            acks_at += _QUEUE + _BETWEEN
        self._acks(acks_at)
        # Above the bars, and below the texts of the lanes.
        self._mark_lines(top, acks_at + _ACKS)
        for number, broker in enumerate(self._timeline.brokers):
            self._lane(broker, lanes_at + number * (_LANE + _BETWEEN))
        self._axis(acks_at + _ACKS)
        y = self._gaps(acks_at + _ACKS + 2 * _ROW + 8)
        self._svg.attrib |= {
            "viewBox": f"0 0 {_WIDTH} {y}",
            "width": str(_WIDTH),
            "height": str(y),
            "font-family": _FONT,
        }
        self._background.attrib |= {"width": str(_WIDTH), "height": str(y)}
        ET.indent(self._svg)
        return ET.tostring(self._svg, "unicode") + "\n"

    # -- the parts ---------------------------------------------------------------

    def _legend(self, y: int) -> None:
        x = 16.0
        for look in self._looks.values():
            self._area(self._svg, look, (x, y - 11), (22, 14))
            self._text(x + 28, y, look.name, _SMALL)
            x += 28 + text_width(look.name, _SMALL) + 14

    def _mark_labels(self, y: int) -> int:
        """
        Adds the texts of the marks, in as many rows as keep them apart, and returns
        where the rows end.
        """
        marks = self._marks
        places = [
            self._beside(self._x(one.at_s), one.label, _SMALL, by=5) for one in marks
        ]
        self._mark_rows = _stairs([self._x(one.at_s) for one in marks], places)
        for event, place, row in zip(marks, places, self._mark_rows, strict=True):
            assert event.mark is not None
            colour, _ = _MARKS[event.mark]
            at = y + _ROW * (row + 1) - 5
            x = self._x(event.at_s)
            self._text_beside((x, at), place, event.label, colour)
        return y + _ROW * (max(self._mark_rows, default=-1) + 1) + 6

    def _mark_lines(self, top: int, bottom: int) -> None:
        group = ET.SubElement(self._svg, "g", {"class": "marks"})
        for event, row in zip(self._marks, self._mark_rows, strict=True):
            assert event.mark is not None
            colour, dashes = _MARKS[event.mark]
            line = ET.SubElement(group, "line", {"class": "mark"})
            x, y = f"{self._x(event.at_s):.1f}", str(top + _ROW * row + 3)
            line.attrib |= {"x1": x, "x2": x, "y1": y, "y2": str(bottom)}
            line.attrib |= {"stroke": colour, "stroke-width": "2"}
            line.attrib["data-kind"] = event.mark.name.lower()
            if dashes:
                line.attrib["stroke-dasharray"] = dashes
            self._tooltip(line, f"{event.at_s:.3f} s: {event.what}")

    def _lane(self, broker: int, y: int) -> None:
        group = ET.SubElement(self._svg, "g", {"class": "lane"})
        group.attrib["data-broker"] = str(broker)
        self._text(
            16, y + _LANE / 2 + 5, f"{self._timeline.lane} {broker}", _TEXT, into=group
        )
        for span in _joined(self._timeline.spans(broker)):
            self._span(group, span, y)

    def _span(self, group: ET.Element, span: LaneSpan, y: int) -> None:
        look = _look(span.state)
        left, right = self._x(span.begin_s), self._x(span.end_s)
        area = self._area(group, look, (left, y), (right - left, _LANE))
        area.attrib["data-role"] = look.name
        names = _names(look, span.state)
        seconds = span.end_s - span.begin_s
        self._tooltip(area, f"{span.begin_s:.3f} s: {names[0]} for {seconds:.3f} s")
        room = right - left - 8
        fitting = (one for one in names if text_width(one, _SMALL) <= room)
        text = next(fitting, None)
        if text is not None:
            middle = (left + right - text_width(text, _SMALL)) / 2
            at = y + _LANE / 2 + 4
            self._text(middle, at, text, _SMALL, fill=look.ink, into=group)

    def _queue(self, y: int) -> None:
        """
        Adds a lane of segments that lack a good copy, and of those without any.
        """
        changes = self._timeline.queue
        most = max(marks + dead for _, marks, dead in changes)
        group = ET.SubElement(self._svg, "g", {"class": "queue"})
        self._text(16, y + 18, "to repair", _TEXT, into=group)
        note = f"segments, to {count_text(most)}"
        self._text(16, y + 36, note, 11, fill="#5a5a5a", into=group)
        scale = (_QUEUE - 6) / max(most, 1)
        ends = [at_s for at_s, _, _ in changes[1:]] + [self._end_s]
        paths: dict[str, list[str]] = {_QUEUE_COLOUR: [], _DEAD_COLOUR: []}
        for (at_s, marks, dead), end_s in zip(changes, ends, strict=True):
            left, wide = self._x(at_s), self._x(end_s) - self._x(at_s)
            base = float(y + _QUEUE)
            for colour, count in ((_DEAD_COLOUR, dead), (_QUEUE_COLOUR, marks)):
                if count:
                    tall = max(count * scale, 2.0)
                    across = f"v-{tall:.2f}h{max(wide, 0.5):.2f}v{tall:.2f}z"
                    paths[colour].append(f"M{left:.2f} {base:.2f}{across}")
                    base -= tall
        for colour, parts in paths.items():
            ET.SubElement(group, "path", {"fill": colour, "d": "".join(parts)})
        self._line(group, (_LEFT, y + _QUEUE), (_WIDTH - _RIGHT, y + _QUEUE), "#b0b0b0")

    def _acks(self, y: int) -> None:
        counts = self._timeline.acked_per(STEP_S)
        most = max([*counts, 1])
        group = ET.SubElement(self._svg, "g", {"class": "acks"})
        self._text(16, y + 20, "`all` acks", _TEXT, into=group)
        notes = ("records in", "100 ms, up", f"to {count_text(most)}")
        for row, text in enumerate(notes):
            self._text(16, y + 40 + 16 * row, text, 11, fill="#5a5a5a", into=group)
        high = _ACKS - 8
        steps = []
        for number, count in enumerate(counts):
            left, right = (self._x(one * STEP_S) for one in (number, number + 1))
            tall = high * count / most
            across = f"v-{tall:.2f}h{right - left:.2f}v{tall:.2f}z"
            steps.append(f"M{left:.2f} {y + _ACKS}{across}" if count else "")
        ET.SubElement(group, "path", {"fill": _ACK_COLOUR, "d": "".join(steps)})

    def _axis(self, y: int) -> None:
        group = ET.SubElement(self._svg, "g", {"class": "axis"})
        self._line(group, (_LEFT, y), (_WIDTH - _RIGHT, y))
        step = next(one for one in _steps() if self._end_s / one <= _TICKS_MAX)
        for number in range(int(self._end_s / step) + 1):
            x = self._x(number * step)
            self._line(group, (x, y), (x, y + 5))
            text = f"{number * step:g} s"
            at = min(x - text_width(text, 11) / 2, _WIDTH - text_width(text, 11) - 2)
            self._text(at, y + 19, text, 11, into=group)

    def _gaps(self, y: int) -> int:
        """
        Adds the gaps below the axis, and returns where they end.
        """
        gaps = self._timeline.gaps
        if gaps:
            self._text(16, y + 4, "longest gap", _TEXT)
        texts = [_gap_text(one) for one in gaps]
        places = []
        for gap, text in zip(gaps, texts, strict=True):
            left, right = self._x(gap.begin_s), self._x(gap.end_s)
            place = self._beside(right, text, _SMALL, by=7)
            places.append((min(left, place[0]), max(right, place[1])))
        rows = _rows(places)
        for gap, text, row in zip(gaps, texts, rows, strict=True):
            self._gap(gap.begin_s, gap.end_s, text, y + _ROW * row)
        return y + _ROW * (max(rows, default=0) + 1)

    def _gap(self, begin_s: float, end_s: float, text: str, y: int) -> None:
        group = ET.SubElement(self._svg, "g", {"class": "gap"})
        left, right = self._x(begin_s), self._x(end_s)
        for x in (left, right):
            self._line(group, (x, y - 5), (x, y + 5), _GAP_COLOUR)
        self._line(group, (left, y), (right, y), _GAP_COLOUR)
        place = self._beside(right, text, _SMALL, by=7)
        if place[0] < right:
            place = left - 7 - (place[1] - place[0]), left - 7
        self._text_beside((right, y + 4), place, text, _GAP_COLOUR, group)

    # -- shapes --------------------------------------------------------------------

    @property
    def _end_s(self) -> float:
        return max(self._timeline.end_s, STEP_S)

    def _x(self, at_s: float) -> float:
        return _LEFT + _PLOT * min(at_s, self._end_s) / self._end_s

    def _beside(
        self, x: float, text: str, size: float, by: float
    ) -> tuple[float, float]:
        """
        Returns the left and the right end of a text beside a place: to the right of it,
        or to the left where there is no room.
        """
        width = text_width(text, size)
        left = x + by if x + by + width < _WIDTH - 4 else x - by - width
        return left, left + width

    def _text_beside(
        self,
        at: tuple[float, float],
        place: tuple[float, float],
        text: str,
        fill: str,
        into: ET.Element | None = None,
    ) -> None:
        """
        Adds a text whose near end is exact, whatever the font.
        """
        left, right = place
        if left >= at[0]:
            self._text(left, at[1], text, _SMALL, fill=fill, into=into)
        else:
            found = self._text(right, at[1], text, _SMALL, fill=fill, into=into)
            found.attrib["text-anchor"] = "end"

    def _add(self, name: str, **values: object) -> ET.Element:
        texts = {key: str(value) for key, value in values.items()}
        return ET.SubElement(self._svg, name, texts)

    def _area(
        self,
        into: ET.Element,
        look: _Look,
        place: tuple[float, float],
        size: tuple[float, float],
    ) -> ET.Element:
        area = ET.SubElement(into, "rect", {"fill": look.fill, "stroke": look.border})
        if look.dashes:
            area.attrib["stroke-dasharray"] = look.dashes
        names = ("x", "y", "width", "height")
        for name, value in zip(names, (*place, *size), strict=True):
            area.attrib[name] = f"{value:.1f}"
        return area

    def _line(
        self,
        into: ET.Element,
        start: tuple[float, float],
        end: tuple[float, float],
        colour: str = "#000000",
    ) -> None:
        line = ET.SubElement(into, "line", {"stroke": colour})
        names = ("x1", "y1", "x2", "y2")
        for name, value in zip(names, (*start, *end), strict=True):
            line.attrib[name] = f"{value:.1f}"

    def _text(
        self,
        x: float,
        y: float,
        text: str,
        size: int,
        *,
        fill: str = "#000000",
        weight: str = "normal",
        into: ET.Element | None = None,
    ) -> ET.Element:
        found = ET.SubElement(self._svg if into is None else into, "text")
        found.attrib |= {"x": f"{x:.1f}", "y": f"{y:.1f}", "font-size": str(size)}
        found.attrib |= {"fill": fill}
        if weight != "normal":
            found.attrib["font-weight"] = weight
        found.text = text
        return found

    @staticmethod
    def _tooltip(shape: ET.Element, text: str) -> None:
        ET.SubElement(shape, "title").text = text


def _joined(spans: Iterable[LaneSpan]) -> list[LaneSpan]:
    """
    Returns the spans, those that look alike and follow each other as one.
    """
    found: list[LaneSpan] = []
    for span in spans:
        looks = [_names(_look(one.state), one.state) for one in (*found[-1:], span)]
        if len(looks) == 2 and looks[0] == looks[1]:
            found[-1] = replace(found[-1], end_s=span.end_s)
        else:
            found.append(span)
    return found


def _look(state: BrokerState) -> _Look:
    name = _ALIKE.get(state.role, state.role)
    return _LOOKS.get(name) or _HOST_LOOKS.get(name, _LOOKS["pending"])


def _names(look: _Look, state: BrokerState) -> Sequence[str]:
    """
    Returns what may stand in an area, the longest text first.
    """
    if look.name == "master":
        return (f"master, epoch {state.epoch}", f"epoch {state.epoch}", "M")
    if look.name == "slave" and state.master is not None:
        return (f"slave of {state.master}, epoch {state.epoch}", "slave", "s")
    if state.carries:
        return (f"{look.name}: {state.carries}", state.carries, look.name)
    return (look.name,)


def _gap_text(gap: AckGap) -> str:
    if gap.begin_s >= gap.cause_s:
        return f"{gap.name}: {seconds_text(gap.seconds)}"
    # It began before its cause, as by a pause.
    after, whole = seconds_text(gap.after_s), seconds_text(gap.seconds)
    return f"{gap.name}: {after} after it, {whole} in all"


def _stairs(marks: Sequence[float], places: Sequence[tuple[float, float]]) -> list[int]:
    """
    Returns the row of the text of each mark, from 0. The line of a mark begins at its
    text and goes down, so it is below every text that reaches over it.
    """
    rows: list[int] = []
    for number, (left, right) in enumerate(places):
        earlier = list(zip(places[:number], rows, strict=True))
        over = [row for (_, end), row in earlier if end + 6 > marks[number]]
        row = max(over, default=-1) + 1
        while any(
            at == row and start < right + 6 and end + 6 > left
            for (start, end), at in earlier
        ):
            row += 1
        rows.append(row)
    return rows


def _rows(places: Sequence[tuple[float, float]]) -> list[int]:
    """
    Returns the row of each text, from 0: the first one where none is in its way.
    """
    ends: list[float] = []
    rows = []
    for left, right in places:
        row = next((one for one, end in enumerate(ends) if end + 6 <= left), len(ends))
        if row == len(ends):
            ends.append(0.0)
        ends[row] = right
        rows.append(row)
    return rows


def _steps() -> Iterable[float]:
    """
    Yields the distances of ticks, in seconds, from the smallest on.
    """
    scale = 0.1
    while True:
        yield from (scale, 2 * scale, 5 * scale)
        scale *= 10
