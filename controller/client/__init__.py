"""
A broker's connection to its controllers: discovery of the leader, and requests.
"""

from __future__ import annotations

from pystore.controller.client.client import ControllerClient, role_handler
from pystore.controller.client.discovery import parse_addresses

__all__ = ["ControllerClient", "parse_addresses", "role_handler"]
