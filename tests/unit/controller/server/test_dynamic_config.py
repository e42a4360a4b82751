"""
Settings that are changed while controllers run (RMQ-R235, RMQ-R257).
"""

from __future__ import annotations

import pytest

from pystore.controller.server.config import ControllerConfig, shown
from pystore.controller.server.dynamic_config import DynamicConfig
from pystore.controller.server.record_keys import SETTINGS
from pystore.errors import InvalidError
from pystore.records.memory import MemorySpace, MemoryStore
from pystore.records.ops import Put

UNCLEAN = {"enableElectUncleanMaster": "true"}


def test_a_change_counts_for_every_controller_and_survives_them() -> None:
    """Not for one node alone, as in RocketMQ."""
    space = MemorySpace()
    one, other = (
        DynamicConfig(ControllerConfig()),
        DynamicConfig(ControllerConfig(listen="h:1")),
    )
    one.change(MemoryStore(space), UNCLEAN)
    one.change(MemoryStore(space), {"scanInactiveMasterInterval": "700"})
    other.read(MemoryStore(space))

    assert one.now.enable_elect_unclean_master
    assert (
        ControllerConfig(
            listen="h:1",
            enable_elect_unclean_master=True,
            scan_inactive_master_interval=700,
        )
        == other.now
    )


@pytest.mark.parametrize(
    "texts", [{"nonsense": "1"}, {"store": "x"}, UNCLEAN | {"listen": "h:2"}]
)
def test_a_wrong_change_changes_nothing(texts: dict[str, str]) -> None:
    """All of it is taken, or none."""
    store, kept = MemoryStore(), DynamicConfig(ControllerConfig())
    with pytest.raises(InvalidError):
        kept.change(store, texts)

    assert store.get(SETTINGS) is None
    assert ControllerConfig() == kept.now


def test_settings_of_a_later_version_are_ignored() -> None:
    """This controller keeps its own settings."""
    store, kept = MemoryStore(), DynamicConfig(ControllerConfig())
    store.commit([Put(SETTINGS, b"fromTheFuture=1\n")])
    kept.read(store)

    assert ControllerConfig() == kept.now


@pytest.mark.parametrize(
    "line",
    [
        b"fromTheFuture=1",
        b"store=elsewhere",
        b"scanInactiveMasterInterval=1",
        b"notifyBrokerRoleChanged=perhaps",
    ],
)
def test_one_unusable_setting_drops_no_other_change(line: bytes) -> None:
    """A later version wrote it, or an earlier one with other bounds; told once."""
    said: list[str] = []
    store, kept = MemoryStore(), DynamicConfig(ControllerConfig(), said.append)
    store.commit([Put(SETTINGS, b"enableElectUncleanMaster=true\n" + line + b"\n")])
    kept.read(store)
    kept.read(store)

    assert ControllerConfig(enable_elect_unclean_master=True) == kept.now
    assert [line.split(b"=")[0].decode()] == [
        one.removeprefix("the setting ").split("=")[0] for one in said
    ]
    kept.change(store, {"notifyBrokerRoleChanged": "false"})
    assert kept.now.enable_elect_unclean_master
    assert not kept.now.notify_broker_role_changed
    record = store.get(SETTINGS)
    assert record is not None
    if b"notify" not in line:
        # The controller that knows it keeps it.
        assert line in record.value


def test_a_configuration_that_forbids_unclean_elections_is_not_overruled() -> None:
    """
    Acknowledged records would be at stake (newcomer A8); other controllers may allow
    them.
    """
    space, said = MemorySpace(), list[str]()
    own = ControllerConfig().with_texts(
        {"enableElectUncleanMaster": "false"}, is_running=False
    )
    strict, other = (
        DynamicConfig(own, said.append),
        DynamicConfig(ControllerConfig()),
    )
    (line,) = strict.change(MemoryStore(space), UNCLEAN, "h:1 at noon")
    other.read(MemoryStore(space))

    assert (
        "the setting enableElectUncleanMaster=true, changed by h:1 at noon, has no "
        "effect here: the configuration says false" == line
    )
    assert ([line], [line]) == (said, strict.differences)
    assert not strict.now.enable_elect_unclean_master
    assert other.now.enable_elect_unclean_master
    assert [] == other.differences


@pytest.mark.parametrize(
    ("name", "given", "changed"),
    [
        ("enableElectUncleanMaster", "true", "false"),
        ("notifyBrokerRoleChanged", "true", "false"),
        ("notifyBrokerRoleChanged", "false", "true"),
        ("dropUnlistedBrokerAfter", "1000", "0"),
        ("scanInactiveMasterInterval", "700", "900"),
    ],
)
def test_a_change_that_the_configuration_contradicts_is_told_at_each_start(
    name: str, given: str, changed: str
) -> None:
    """
    With who made it; it holds.
    """
    space = MemorySpace()
    DynamicConfig(ControllerConfig()).change(MemoryStore(space), {name: changed}, "me")
    own = ControllerConfig().with_texts({name: given}, is_running=False)
    for _ in range(2):
        said: list[str] = []
        kept = DynamicConfig(own, said.append)
        for _ in range(2):
            kept.read(MemoryStore(space))
        assert [
            f"the setting {name}={changed}, changed by me, holds, though the "
            f"configuration says {given}"
        ] == said
        assert shown(kept.now)[name] == changed


def test_a_change_that_agrees_with_the_configuration_is_not_told() -> None:
    """
    Nor one of a setting that the configuration does not give.
    """
    space, said = MemorySpace(), list[str]()
    own = ControllerConfig().with_texts(UNCLEAN, is_running=False)
    kept = DynamicConfig(own, said.append)
    texts = UNCLEAN | {"notifyBrokerRoleChanged": "false"}

    assert [] == kept.change(MemoryStore(space), texts, "me")
    assert [] == said
