"""
Who asks for no gate gets none.
"""

from __future__ import annotations

from pystore.remoting.admission import OpenAdmission, unsigned
from pystore.remoting.command import RemotingCommand
from pystore.remoting.repeated_request import RepeatedRequest

REQUEST = RemotingCommand(1)


def test_without_a_gate_every_request_passes_as_it_is() -> None:
    """
    And may be answered without being decoded, if it repeats another one.
    """
    admission = OpenAdmission[None]()
    assert REQUEST is admission.admit(REQUEST, None)
    repeat = RepeatedRequest([1], None, 904, "", b"", b"")
    assert admission.admits_repeat(repeat, None)


def test_without_a_signer_a_request_is_sent_as_it_is() -> None:
    """
    Unsigned.
    """
    assert REQUEST is unsigned(REQUEST, None)
