"""
The choice of the record store.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pystore.controller.server.config import ControllerConfig
from pystore.controller.server.record_store import record_store
from pystore.errors import InvalidError
from pystore.records.lmdb_store import LmdbStore


@pytest.mark.parametrize(
    "settings",
    [ControllerConfig(), ControllerConfig(store="x", zookeeper="h:1")],
    ids=["0", "2"],
)
def test_exactly_one_record_store_has_to_be_named(settings: ControllerConfig) -> None:
    """A default would be another place after each move of the process."""
    with pytest.raises(InvalidError, match="--store DIR"):
        record_store(settings)


def test_a_directory_is_lmdb(tmp_path: Path) -> None:
    """Opened when it is first used."""
    store = record_store(ControllerConfig(store=str(tmp_path / "records")))()

    assert isinstance(store, LmdbStore)
    assert [] == store.scan("controller/")
    store.close()


@pytest.mark.parametrize("content", [None, "nothing"])
def test_files_of_tls_that_cannot_be_used_are_refused_at_once(
    tmp_path: Path, content: str | None
) -> None:
    """
    And not told as a ZooKeeper that does not answer.
    """
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    texts = {
        "zookeeper": "127.0.0.1:1",
        "zookeeperTls": "true",
        "tlsAuthorities": str(path),
    }
    settings = ControllerConfig().with_texts(texts, is_running=False)
    with pytest.raises((InvalidError, OSError), match=r"ca\.pem"):
        record_store(settings)
