"""
Who asks for no gate gets none.
"""

from __future__ import annotations

from pystore.remoting.admission import OpenAdmission, unsigned
from pystore.remoting.command import RemotingCommand

REQUEST = RemotingCommand(1)


def test_without_a_gate_every_request_passes_as_it_is() -> None:
    """
    And may be answered without being decoded, if it repeats another one.
    """
    admission = OpenAdmission[None]()
    assert REQUEST is admission.admit(REQUEST, None)
    assert admission.admits_repeats()


def test_without_a_signer_a_request_is_sent_as_it_is() -> None:
    """
    Unsigned.
    """
    assert REQUEST is unsigned(REQUEST, None)
