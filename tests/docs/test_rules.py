"""
Each rule that the source, the tests or a page cites is defined in docs/rules.md.

The definitions of RMQ-T1 to RMQ-T60 are the rows of docs/rocketmq-tests.md.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from itertools import pairwise
from operator import itemgetter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RULES = DOCS / "rules.md"
DEFINING = [RULES, *sorted((DOCS / "rules").glob("*.md"))]
TESTS_PAGE = DOCS / "rocketmq-tests.md"

SECTION = r"\d+(?:\.\d+)*"
NUMBERED = r"(?:RMQ-[RT]|AR-R|BK-A)\d+"
NAMED = rf"{NUMBERED}|RMQ-[A-M]\.{SECTION}|[ABC]\d{{1,2}}a?"
CITED = re.compile(rf"(?<![\w.-])(?:{NAMED})(?![\w-])")
RANGE = re.compile(rf"(?<![\w.-])({NAMED})\s+to\s+({NAMED})(?![\w-])")
SECTIONS = re.compile(
    rf"\b(formats|client\s+protocol)\s+({SECTION}(?:(?:,|\s+to|,?\s+and)\s+{SECTION})*)"
)
BARE = re.compile(r"(?<![\w.-])(?:R\d{1,3}|[CKLM]\.\d{1,2})(?![\w-])")
BARE_TEST = re.compile(r"(?<![\w.-])T\d{1,2}(?![\w-])")
PAPER = re.compile(
    r"\b(?:design|style)\s+\d|\bseeds?\s+00\d|\bsafety\s+[ABC]\d|(?<![\w-])spec/"
)
PAGE = re.compile(r"(?<![\w./-])(?:[\w.-]+/)*[\w.-]+\.md\b")


def _files() -> list[Path]:
    """
    All texts for readers, except drawings and texts of other projects.
    """
    found = [*ROOT.glob("*.md"), *(ROOT / "csrc").rglob("*.[ch]")]
    for folder in ("pystore", "ha", "controller", "bench"):  # pystore may hold two
        found += (ROOT / folder).rglob("*.py")
    for pattern in ("*.py", "*.[ch]", "*.txt", "*.toml", "*.sh"):
        found += (ROOT / "tests").rglob(pattern)
    found += DOCS.rglob("*.md")
    left_out = (ROOT / "tests" / "golden", Path(__file__))
    return sorted(
        {
            path
            for path in found
            if not any(path.is_relative_to(one) for one in left_out)
            and "build" not in path.parts
        }
    )


FILES = _files()


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _joined(text: str) -> str:
    """
    Blanks the marks before comment lines, so that a citation may span lines.
    """
    return re.sub(
        r"^[ \t]*(?:#+|/?\*+|//)(?= |$)", lambda m: " " * len(m[0]), text, flags=re.M
    )


def citations(text: str) -> list[tuple[int, str]]:
    """
    Returns the rules that a text cites, each with its line; of a range both ends.
    """
    text = _joined(text)
    found = [(match.start(), match[0]) for match in CITED.finditer(text)]
    for match in SECTIONS.finditer(text):
        page = " ".join(match[1].split())
        found += [(match.start(), f"{page} {n}") for n in re.findall(SECTION, match[2])]
    found.sort(key=itemgetter(0))
    return [(text.count("\n", 0, at) + 1, rule) for at, rule in found]


def ranges(text: str) -> list[tuple[str, str]]:
    """
    Returns the ranges that a text cites, by their ends.
    """
    text = _joined(text)
    found = [(match[1], match[2]) for match in RANGE.finditer(text)]
    for match in SECTIONS.finditer(text):
        page = " ".join(match[1].split())
        ends = re.findall(rf"({SECTION})\s+to\s+({SECTION})", match[2])
        found += [(f"{page} {first}", f"{page} {last}") for first, last in ends]
    return found


def definitions(text: str) -> list[str]:
    """
    Returns the rules that a page defines: rows of tables, and headings.
    """
    rows = rf"^\| ({NAMED}|(?:formats|client protocol) {SECTION}) \|"
    headings = r"^### ([ABC]\d{1,2}a?) "
    return re.findall(rows, text, re.M) + re.findall(headings, text, re.M)


def _defined() -> list[str]:
    """
    Returns the rules that all pages define; the page of RocketMQ's tests has no others.
    """
    tests = [one for one in definitions(_text(TESTS_PAGE)) if one[:5] == "RMQ-T"]
    return tests + [rule for page in DEFINING for rule in definitions(_text(page))]


def strays(text: str, prose: str) -> list[tuple[int, str]]:
    """
    Returns old spellings and missing papers, each with its line.

    Args:
        text: all of a file.
        prose: the same with everything blanked that is no comment or docstring; names
            such as T1 are data elsewhere.
    """
    found = [
        (match.start(), match[0])
        for pattern, where in ((BARE, text), (BARE_TEST, prose), (PAPER, _joined(text)))
        for match in pattern.finditer(where)
    ]
    return [(text.count("\n", 0, at) + 1, " ".join(what.split())) for at, what in found]


def _prose(path: Path) -> str:
    """
    Returns the prose of a file: of Python its comments and docstrings.
    """
    text = _text(path)
    if path.suffix == ".md" or not BARE_TEST.search(text):
        return text
    if path.suffix != ".py":
        return _joined(text) if path.suffix == ".txt" else ""
    docs = {
        (node.value.lineno, node.value.col_offset)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    kept = [" " * len(line) for line in text.split("\n")]
    lines = text.split("\n")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (
            token.type == tokenize.STRING and token.start in docs
        ):
            for number in range(token.start[0] - 1, token.end[0]):
                kept[number] = lines[number]
    return "\n".join(kept)


def _key(rule: str) -> tuple[str, list[int]]:
    """
    Returns the family of a rule and its place in it.
    """
    family = re.sub(rf"{SECTION}a?$", "", rule)
    return family, [int(number) for number in re.findall(r"\d+", rule[len(family) :])]


def spread(first: str, last: str, defined: set[str]) -> set[str]:
    """
    Returns the rules of a range that there are, both ends included.

    A rule with a letter, such as C2a, is cited by itself only.
    """
    (family, low), (other, high) = _key(first), _key(last)
    assert family == other, f"{first} to {last}"
    assert low < high, f"{first} to {last}"
    keys = [(rule, *_key(rule)) for rule in defined]
    return {
        rule
        for rule, one, at in keys
        if one == family and low <= at <= high and not rule.endswith("a")
    }


DEFINED = set(_defined())


def test_each_citation_has_its_definition() -> None:
    """
    Both ends of a range are defined.
    """
    unknown = [
        f"{_name(path)}:{line}: {rule}"
        for path in FILES
        for line, rule in citations(_text(path))
        if rule not in DEFINED
    ]

    assert [] == unknown


def test_no_citation_has_the_old_spelling_or_leads_out_of_the_project() -> None:
    """
    A reader cannot look up a bare R number or a missing paper.
    """
    found = [
        f"{_name(path)}:{line}: {what}"
        for path in FILES
        for line, what in strays(_text(path), _prose(path))
    ]

    assert [] == found


def test_each_page_that_the_source_names_exists() -> None:
    """
    A page is named by its path, from the root or from the page that names it.
    """
    missing = [
        (_name(path), page)
        for path in FILES
        for page in PAGE.findall(_text(path))
        if not any((at / page).is_file() for at in (ROOT, DOCS, path.parent))
    ]

    assert [] == missing


def test_each_rule_is_defined_once() -> None:
    """
    Two definitions of one number would be two rules.
    """
    assert [] == [rule for rule, times in Counter(_defined()).items() if times > 1]


def _used() -> set[str]:
    """
    Returns the rules that something outside their own pages cites.
    """
    used: set[str] = set()
    for path in FILES:
        if path in DEFINING:
            continue
        text = _text(path)
        used.update(rule for _, rule in citations(text))
        for first, last in ranges(text):
            used |= spread(first, last, DEFINED)
    return used


def test_the_page_lists_the_safety_rules_without_code() -> None:
    """
    A rule that nothing cites is planned, and a planned one that is cited is no plan.
    """
    found = re.search(r"^Planned: (.*?)\.\s", _text(RULES), re.M | re.S)
    listed = found[1] if found else ""
    planned: set[str] = {rule for _, rule in citations(listed)}
    for first, last in ranges(listed):
        planned |= spread(first, last, DEFINED)
    safety = set(definitions(_text(RULES)))

    assert sorted(planned) == sorted(safety - _used())


def test_the_safety_rules_leave_no_number_out() -> None:
    """
    A1, A2 and so on: they are a list that is kept.
    """
    rules = [_key(rule) for rule in definitions(_text(RULES))]

    assert {"A", "B", "C"} == {family for family, _ in rules}
    assert [] == [
        (one, other)
        for one, other in pairwise(rules)
        if one[0] == other[0] and other[1][0] - one[1][0] not in (0, 1)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# B1, RMQ-R999; A6", [(1, "B1"), (1, "RMQ-R999"), (1, "A6")]),
        ("by its end (C2a,\n    # RMQ-T12).", [(1, "C2a"), (2, "RMQ-T12")]),
        ("formats 3.4, 4.13; x", [(1, "formats 3.4"), (1, "formats 4.13")]),
        (
            "formats 4\n# to 6, 1.",
            [(1, "formats 4"), (1, "formats 6"), (1, "formats 1")],
        ),
        ("/* client\n * protocol 1.3 */", [(1, "client protocol 1.3")]),
        (
            "RMQ-R1 to\n# RMQ-L.1.7, AR-R16",
            [(1, "RMQ-R1"), (2, "RMQ-L.1.7"), (2, "AR-R16")],
        ),
        ("0xA8, sha-A1, XA1, A1_B, ARM64, V2 and U+0085 are none", []),
    ],
)
def test_citations_are_found_and_nothing_else(
    text: str, expected: list[tuple[int, str]]
) -> None:
    """
    They may be in comments of any language, span lines, and be lists or ranges.
    """
    assert expected == citations(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(R9)", [(1, "R9")]),
        ("RMQ-R9,\nR10", [(2, "R10")]),
        ("K.3 rule 4", [(1, "K.3")]),
        ("as T12 has it", [(1, "T12")]),
        ("Source: design 7;\n# safety\n# B1", [(1, "design 7"), (2, "safety B1")]),
        ("spec/safety.md", [(1, "spec/")]),
        ("RMQ-R9, RMQ-T12, RMQ-K.3.4, xR9, docs/crash-safety.md (A6)", []),
    ],
)
def test_a_planted_stray_is_found(text: str, expected: list[tuple[int, str]]) -> None:
    """
    The old spelling, and papers that are not in the project.
    """
    assert expected == strays(text, text)


def test_a_planted_citation_without_a_definition_is_found() -> None:
    """
    A number that no page has, also as the end of a range.
    """
    unknown = [one for _, one in citations("A6 to A99, RMQ-R999") if one not in DEFINED]

    assert ["A99", "RMQ-R999"] == unknown


def test_a_range_has_the_rules_between_its_ends() -> None:
    """
    Rules are ordered by number, not by digits; a reversed range is an error.
    """
    rules = {"RMQ-R9", "RMQ-R10", "RMQ-R11", "RMQ-T10", "formats 4.9", "formats 4.10"}
    leases = {"C1", "C2", "C2a", "C3"}

    assert {"RMQ-R9", "RMQ-R10"} == spread("RMQ-R9", "RMQ-R10", rules)
    assert {"C1", "C2", "C3"} == spread("C1", "C3", leases)
    assert {"formats 4.9", "formats 4.10"} == spread(
        "formats 4.9", "formats 4.10", rules
    )
    with pytest.raises(AssertionError, match="RMQ-R10 to RMQ-R9"):
        spread("RMQ-R10", "RMQ-R9", rules)
