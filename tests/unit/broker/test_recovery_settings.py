"""
The table ``[recovery]`` of a host's TOML.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pystore.broker.recovery_settings import HostRecoverySettings
from pystore.broker.settings import host_of_toml
from pystore.errors import InvalidError

NODE = 'brokerName = "b"\naddress = "h:1"\nstore = "s"\ncontrollerAddr = "c:1;d:1"\n'
SPARE = '[host]\nhostAddress = "h:1"\ncontrollerAddr = ["e:1"]\nstoreRoot = "s"\n'


def found(text: str) -> HostRecoverySettings | None:
    """
    What a host does for AutoRecovery.
    """
    return host_of_toml(text, "b.toml").recovery


def test_a_host_repairs_only_if_its_file_says_so() -> None:
    """With the controllers of its node, or of itself, or others."""
    assert found(NODE) is None
    one = found(f'{NODE}[recovery]\nrecords = "/r"\n')
    assert HostRecoverySettings("/r", None, ("c:1", "d:1")) == one
    spare = found(f'{SPARE}[recovery]\ncontrollerConfig = "c.toml"\nworker = false\n')
    assert HostRecoverySettings("", Path("c.toml"), ("e:1",), 0) == spare
    text = 'records = "z:1"\ncontrollerAddr = "f:1"\nslots = 64\nauditor = false\n'
    other = found(f"{NODE}[recovery]\n{text}")
    assert HostRecoverySettings("z:1", None, ("f:1",), 64, is_candidate=False) == other


def test_it_connects_as_the_node_does() -> None:
    """Its credentials and its TLS."""
    one = found(f'{NODE}credentialsFile = "k"\n[recovery]\nrecords = "/r"\n')
    assert one is not None
    assert Path("k") == one.access.credentials


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "records is missing"),
        ('records = "/r"\nslots = 65\n', "slots=65"),
        ('records = "/r"\nworker = false\nauditor = false\n', "nothing to do"),
        ('record = "/r"\n', "did you mean records?"),
        ('records = "/r"\nauditor = 3\n', "auditor=3"),
    ],
)
def test_a_wrong_value_names_the_table(text: str, reason: str) -> None:
    """One line, with the file."""
    with pytest.raises(InvalidError) as caught:
        found(f"{NODE}[recovery]\n{text}")
    assert "b.toml: [recovery]" in str(caught.value)
    assert reason in str(caught.value)
