"""
Paths of the Spark source: roots, globs and URLs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pystore.errors import InvalidError, NotAStoreError
from pystore.spark.plan.paths import find_stores


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
