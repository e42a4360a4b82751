"""
The names of the modes, which stand in configuration files.
"""

from __future__ import annotations

from pystore.access.mode import AccessMode


def test_a_mode_is_written_as_in_the_configuration() -> None:
    """
    The names of RocketMQ's modes of TLS, but for *disabled*.
    """
    assert ["off", "permissive", "enforcing"] == [one.value for one in AccessMode]
