"""
Paths of the Spark source: roots, globs and URLs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pystore.errors import InvalidError, NotAStoreError
from pystore.spark.plan.paths import find_roots, find_stores, is_named


@pytest.fixture
def stores(tmp_path: Path) -> list[Path]:
    """
    Three stores beside a folder that is no store.
    """
    roots = [tmp_path / f"broker-{name}" for name in "abc"]
    for root in roots:
        (root / "commitlog").mkdir(parents=True)
    (tmp_path / "broker-d").mkdir()
    return roots


def test_a_glob_finds_the_stores_among_other_folders(stores: list[Path]) -> None:
    """
    They are sorted by name, and each is listed once.
    """
    folder = stores[0].parent

    assert stores == find_stores([f"{folder}/broker-*", str(stores[1])])
    assert stores[2:] == find_stores([f"file://{stores[2]}"])
    assert stores[:1] == find_stores([f"file:{stores[0]}"])


@pytest.mark.parametrize(
    ("path", "kind", "message"),
    [
        ("{}/nothing", NotAStoreError, "no such directory"),
        ("{}/broker-d", NotAStoreError, "it has no commitlog/"),
        ("{}/nothing-*", NotAStoreError, "no store matches"),
        ("hdfs://host{}/broker-a", InvalidError, "only local paths and file: URLs"),
        ("file://host{}/broker-a", InvalidError, "only local paths and file: URLs"),
    ],
)
def test_a_path_without_a_store_is_refused(
    path: str, kind: type[Exception], message: str, stores: list[Path]
) -> None:
    """
    An empty result would look like an empty log.
    """
    with pytest.raises(kind, match=message):
        find_stores([path.format(stores[0].parent)])


def test_a_named_path_that_is_no_store_is_found_beside_a_store(tmp_path: Path) -> None:
    """
    The caller says what is wrong with it; matches of a pattern are passed over.
    """
    for name in "ab":
        (tmp_path / name / "commitlog").mkdir(parents=True)
    (tmp_path / "c").mkdir()
    named = [str(tmp_path / name) for name in "acb"]

    assert [tmp_path / name for name in "acb"] == find_roots(named)
    assert [tmp_path / name for name in "ab"] == find_roots([str(tmp_path / "[abc]")])
    with pytest.raises(NotAStoreError):
        find_roots([str(tmp_path / "c")])


def test_what_gives_no_answer_is_found_by_a_pattern(tmp_path: Path) -> None:
    """
    It may be a store.
    """
    (tmp_path / "a" / "commitlog").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "commitlog").symlink_to("commitlog")

    assert [tmp_path / "a", tmp_path / "b"] == find_roots([str(tmp_path / "*")])


def test_a_root_that_is_gone_is_named_by_a_path_or_a_pattern() -> None:
    """
    A star matches no separator.
    """
    assert is_named("/data/a", ["/x", "/data/*"])
    assert is_named("/data/a", ["/data/a/"])
    assert not is_named("/data/a/b", ["/data/*"])
    assert not is_named("/data/b", ["/data/a"])
