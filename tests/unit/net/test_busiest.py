"""
Which of too many peers has to go.
"""

from __future__ import annotations

from pystore.net.busiest import oldest_of_busiest


def test_the_oldest_peer_of_the_address_with_the_most_goes() -> None:
    """Whatever the others did before or after it."""
    hosts = {1: "10.0.0.1", 2: "10.0.0.7", 3: "10.0.0.2", 4: "10.0.0.7"}
    assert oldest_of_busiest(hosts) == 2


def test_among_addresses_with_as_many_the_oldest_goes() -> None:
    """So a single peer of an address is not kept for ever."""
    assert oldest_of_busiest({5: "10.0.0.9", 1: "10.0.0.1"}) == 5
