"""
The documentation keeps its word: its links lead somewhere, its examples run.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("bench/*.md")]
)
EXAMPLES = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_link_within_the_project_leads_to_a_file(page: Path) -> None:
    """
    A renamed page takes its links along.
    """
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    broken = [
        link
        for link in links
        if "://" not in link and not (page.parent / link).exists()
    ]

    assert [] == broken


@pytest.mark.parametrize(
    "page", [page for page in PAGES if EXAMPLES.search(page.read_text())], ids=_name
)
def test_the_examples_of_a_page_run_one_after_another(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Whoever copies the examples into an empty folder sees them work.
    """
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "example"}
    for example in EXAMPLES.finditer(page.read_text(encoding="utf-8")):
        line = page.read_text(encoding="utf-8")[: example.start()].count("\n") + 1
        code = compile("\n" * line + example[1], _name(page), "exec")
        exec(code, names)

    assert names


def test_the_readme_is_short_enough_to_be_read() -> None:
    """
    What does not fit has a page under docs/.
    """
    assert 150 >= (ROOT / "README.md").read_text(encoding="utf-8").count("\n")


def test_every_decision_stands_in_the_list_of_decisions() -> None:
    """
    A decision that the index does not name is not found.
    """
    folder = ROOT / "docs" / "adr"
    listed = re.findall(r"\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text())

    assert sorted(path.name for path in folder.glob("[0-9]*.md")) == listed
