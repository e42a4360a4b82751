"""
Settings that are changed while controllers run (RMQ-R235, RMQ-R257).
"""

from __future__ import annotations

import pytest

from pystore.controller.server.config import ControllerConfig
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
