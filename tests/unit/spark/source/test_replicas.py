"""
Replicas of one log and two paths to one store are one log; other stores are not.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from lib.spark.exports import SEGMENT, Growing

from pystore.spark.source.offsets import StreamOffset
from pystore.spark.source.replicas import LogReplicas, find_logs, with_known_keys


def identify(root: Path, text: str) -> None:
    """
    Writes the identity file of a broker.
    """
    (root / "brokerIdentity").write_text(text)


def copy(store: Growing, root: Path) -> Path:
    """
    A replica.
    """
    return Path(shutil.copytree(store.root, root))


def test_stores_of_one_broker_set_are_one_log(tmp_path: Path) -> None:
    """
    Its name is the key.
    """
    store = Growing.new(tmp_path / "a", 300)
    roots = [store.root, copy(store, tmp_path / "b")]
    for number, root in enumerate(roots):
        identify(root, f"c#set#{number}")

    assert [LogReplicas("c#set", tuple(map(str, roots)))] == find_logs(roots)


def test_stores_without_identity_are_one_log_if_they_begin_alike(
    tmp_path: Path,
) -> None:
    """
    Also if one has deleted its first segments. Other stores are other logs.
    """
    store = Growing.new(tmp_path / "a", 300)
    replica = copy(store, tmp_path / "b")
    Growing(replica, []).delete(SEGMENT)
    other = Growing.new(tmp_path / "c", 300)
    empty = Growing.new(tmp_path / "d")

    found = find_logs([store.root, other.root, replica, empty.root])

    assert [
        LogReplicas(str(store.root), (str(store.root), str(replica))),
        LogReplicas(str(other.root), (str(other.root),)),
        LogReplicas(str(empty.root), (str(empty.root),)),
    ] == found


def test_two_paths_to_one_store_are_one_store(tmp_path: Path) -> None:
    """
    A link, in any place of the path.
    """
    (tmp_path / "a").mkdir()
    store = Growing.new(tmp_path / "a" / "store", 3)
    (tmp_path / "b").symlink_to(tmp_path / "a")

    (found,) = find_logs([tmp_path / "b" / "store", store.root])

    assert str(store.root) == found.key
    assert (str(tmp_path / "b" / "store"),) == found.roots


def test_two_clusters_of_the_same_names_are_two_logs(tmp_path: Path) -> None:
    """
    Test clusters have default names. Neither may be passed over.
    """
    stores = [Growing.new(tmp_path / name, 20) for name in "ab"]
    for store in stores:
        identify(store.root, "DefaultCluster#broker-a#0")

    found = find_logs([store.root for store in stores])

    assert [str(store.root) for store in stores] == [log.key for log in found]


def test_a_damaged_first_record_does_not_split_a_log(tmp_path: Path) -> None:
    """
    It proves nothing: the identity decides.
    """
    store = Growing.new(tmp_path / "a", 20)
    replica = copy(store, tmp_path / "b")
    for number, root in enumerate((store.root, replica)):
        identify(root, f"c#set#{number}")
    with (replica / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(20)
        file.write(b"\xff")

    assert 1 == len(find_logs([store.root, replica]))


def test_a_position_under_a_path_is_of_the_log_of_that_store(tmp_path: Path) -> None:
    """
    Older pystores kept positions by path. Of several the furthest is continued.
    """
    log = LogReplicas("c#set", (str(tmp_path / "a"), str(tmp_path / "b")))
    known = {
        str(tmp_path / "a"): StreamOffset(10),
        str(tmp_path / "b"): StreamOffset(30),
        "gone": StreamOffset(5),
    }

    (named,), missing = with_known_keys([log], known, lambda *_: False)

    assert str(tmp_path / "b") == named.key
    assert {"gone"} == missing


def test_a_moved_store_is_known_by_its_record() -> None:
    """
    A store that only begins at the new path has another record there.
    """
    logs = [LogReplicas("new", ("new",)), LogReplicas("moved", ("moved",))]
    known = {"old": StreamOffset(10, 5, 1)}

    named, missing = with_known_keys(logs, known, lambda log, _: log.key == "moved")

    assert ["new", "old"] == [log.key for log in named]
    assert not missing
