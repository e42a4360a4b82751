"""
Machines in namespaces: links that are cut in one direction, and slow ones.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from chaos.machines import Network, missing

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

ECHO = """
import socket
server = socket.create_server(("{}", 9000))
print("up", flush=True)
while True:
    link, _ = server.accept()
    link.sendall(link.recv(10))
    link.close()
"""
ASK = """
import socket
link = socket.create_connection(("{}", 9000), 0.5)
link.sendall(b"x")
assert link.recv(10) == b"x"
"""


def test_a_cut_link_loses_one_direction_and_heals(tmp_path: Path) -> None:
    """
    Between two of three machines; a disk of one is not seen by the other.
    """
    with Network(("a", "b", "c")) as network:
        a, b, c = network.machines.values()
        server = subprocess.Popen(
            [*b.inside, sys.executable, "-c", ECHO.format(b.address)],
            stdout=subprocess.PIPE,
        )
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == b"up\n"

            def hears(machine: object) -> bool:
                inside = machine.inside  # type: ignore[attr-defined]
                ask = [*inside, sys.executable, "-c", ASK.format(b.address)]
                done = subprocess.run(ask, check=False, capture_output=True)
                return done.returncode == 0

            assert (True, True) == (hears(a), hears(c))
            for ends in (("a", "b"), ("b", "a")):
                cut = network.cut(*ends)
                assert (False, True) == (hears(a), hears(c))
                network.heal(cut)
                assert hears(a)
            network.slow("b", 100)
            assert hears(a)
            network.full_speed("b")
            a.mount(tmp_path / "disk", 1)
            a.run("touch", tmp_path / "disk/file")
            assert a.seen(tmp_path / "disk/file").exists()
            assert not (tmp_path / "disk/file").exists()
        finally:
            server.kill()
            server.communicate()
