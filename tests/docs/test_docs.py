"""
The documentation keeps its word: its links lead somewhere, its examples run.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from lib.oracle.golden_data import GoldenStore

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("bench/*.md")]
)
EXAMPLES = re.compile(r"^```(python|sh)\n(.*?)^```$", re.M | re.S)


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _anchor(heading: str) -> str:
    """
    Returns the anchor of a heading, as code hosts form it.
    """
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_link_within_the_project_leads_to_a_place(page: Path) -> None:
    """
    A renamed page takes its links along, and so does a renamed heading.
    """
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    broken = [link for link in links if "://" not in link and not _is_there(page, link)]

    assert [] == broken


def _is_there(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    if not target.exists() or not anchor:
        return target.exists()
    headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.M)
    return anchor in map(_anchor, headings)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """
    An empty folder to work in, with ``pystore`` on the path and a store of RocketMQ
    in the home directory.
    """
    command = tmp_path / "bin" / "pystore"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pystore "$@"\n')
    command.chmod(0o755)
    home, folder = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    folder.mkdir()
    GoldenStore("mixed-clean").extract(home).rename(home / "store")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{command.parent}:/usr/bin:/bin")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return folder


@pytest.mark.parametrize(
    "page", [page for page in PAGES if EXAMPLES.search(page.read_text())], ids=_name
)
def test_the_examples_of_a_page_run_one_after_another(page: Path, shell: Path) -> None:
    """
    A reader who copies the examples into an empty folder sees them work.
    """
    assert [] == list(shell.iterdir())
    text = page.read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": "example"}
    for example in EXAMPLES.finditer(text):
        kind, code = example.groups()
        if kind == "sh":
            _run(code)
        else:
            line = text[: example.start()].count("\n") + 1
            exec(compile("\n" * line + code, _name(page), "exec"), names)


def _run(lines: str) -> None:
    for line in lines.splitlines():
        done = subprocess.run(
            ["sh", "-ec", line], capture_output=True, check=False, text=True
        )

        assert (line, 0, "") == (line, done.returncode, done.stderr)
        assert done.stdout


def test_the_readme_is_short_enough_to_be_read() -> None:
    """
    Longer texts have a page under docs/.
    """
    assert 150 >= (ROOT / "README.md").read_text(encoding="utf-8").count("\n")


def test_every_decision_stands_in_the_list_of_decisions() -> None:
    """
    A decision that the index does not name is not found.
    """
    folder = ROOT / "docs" / "adr"
    listed = re.findall(r"\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text())

    assert sorted(path.name for path in folder.glob("[0-9]*.md")) == listed
