"""
How a process of the job reaches brokers: files that have the same path on every host.

Source: docs/spark.md, *Running replicas*; docs/security.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pystore.access.credentials import CredentialsFile
from pystore.access.signer import RequestSigner
from pystore.net.tls import ClientTls, TlsMode, tls_config
from pystore.remoting.admission import Signs
from pystore.remoting.connection import Connection

__all__ = ["BrokerAccess"]


@dataclass(frozen=True, slots=True)
class BrokerAccess:
    """
    Names of files, so that it travels to executors; each process reads them itself.

    Attributes:
        credentials: of a user with the role operator; empty: requests are not signed.
        authorities: certificates that verify the brokers; empty: plain bytes.
        certificate: that is shown to brokers; empty: none.
        key: of the certificate.
    """

    credentials: str = ""
    authorities: str = ""
    certificate: str = ""
    key: str = ""

    def signs(self) -> Signs[Connection] | None:
        """
        Returns what signs each request; ``None``: nothing is signed.

        Raises:
            InvalidError: others may read the file, or it has another form.
            OSError: it cannot be read.
        """
        if not self.credentials:
            return None
        return RequestSigner(CredentialsFile(Path(self.credentials)).now).sign

    def tls(self) -> ClientTls | None:
        """
        Returns how to connect; ``None``: with plain bytes.

        Raises:
            InvalidError: the files do not fit each other.
            OSError: one cannot be read.
        """
        if not self.authorities:
            return None
        mode = TlsMode.DISABLED.value
        return ClientTls(tls_config(mode, self.certificate, self.key, self.authorities))
