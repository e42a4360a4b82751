"""
How a node proves who it is, and what its connections speak.

Source: docs/security.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from pystore.access.credentials import CredentialsFile, credentials_of_json
from pystore.access.signer import RequestSigner
from pystore.broker.config import NodeConfig
from pystore.broker.setting_texts import SettingTexts
from pystore.errors import InvalidError
from pystore.net.networks import Networks, parse_networks
from pystore.net.tls import ClientTls, ServerTls, TlsConfig, TlsMode, tls_config
from pystore.remoting.admission import Signs
from pystore.remoting.connection import Connection
from pystore.remoting.signature import Credentials

__all__ = ["ACCESS_KEYS", "AccessSettings", "OpenedAccess", "access_of"]

ACCESS_KEYS = (
    "credentialsFile",
    "innerClientAuthenticationCredentials",
    "tlsMode",
    "tlsCertificate",
    "tlsKey",
    "tlsAuthorities",
    "tlsNeedsClient",
    "tlsClient",
    "haUnproven",
)
"""The names of these settings."""


class OpenedAccess(NamedTuple):
    """
    What connections need.

    Attributes:
        credentials: returns those of this moment; ``None``: there are none.
        signs: signs requests with them; ``None``: nothing is signed.
        client_tls: of own connections; ``None``: plain bytes.
        server_tls: of the ports; ``None``: plain bytes.
    """

    credentials: Callable[[], Credentials] | None
    signs: Signs[Connection] | None
    client_tls: ClientTls | None
    server_tls: ServerTls | None


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """
    The settings of one node.

    Attributes:
        credentials: with which it signs its requests, or their file; ``None``: it signs
            none.
        tls: of its port, and of its connections if `is_tls_client`.
        is_tls_client: its connections to controllers and name servers speak TLS.
        ha_unproven: slaves at these addresses may go without proofs.
    """

    credentials: Credentials | Path | None = None
    tls: TlsConfig = field(default_factory=TlsConfig)
    is_tls_client: bool = False
    ha_unproven: Networks = ()

    def applied(self, config: NodeConfig, say: Callable[[str], object]) -> NodeConfig:
        """
        Returns the configuration with them.

        Args:
            config: of the node.
            say: receives one line for people if changed files do not fit.

        Raises:
            InvalidError: others may read the credentials, or files do not fit.
            OSError: a file cannot be read.
        """
        access = self.opened(say)
        return replace(
            config,
            credentials=access.credentials,
            ha_unproven=self.ha_unproven,
            signs=access.signs,
            client_tls=access.client_tls,
            server_tls=access.server_tls,
        )

    def opened(self, say: Callable[[str], object]) -> OpenedAccess:
        """
        Returns what connections need of them.

        Args:
            say: as `applied`.

        Raises:
            InvalidError: as `applied`.
            OSError: as there.
        """
        tls, own = self.tls, self._credentials(say)
        return OpenedAccess(
            own,
            None if own is None else RequestSigner(own).sign,
            ClientTls(tls, say) if self.is_tls_client else None,
            None if tls.mode is TlsMode.DISABLED else ServerTls(tls, say),
        )

    def _credentials(
        self, say: Callable[[str], object]
    ) -> Callable[[], Credentials] | None:
        own = self.credentials
        if own is None:
            return None
        if isinstance(own, Path):
            return CredentialsFile(own, say).now
        return lambda: own


def access_of(texts: SettingTexts) -> AccessSettings:
    """
    Returns the settings of a file.

    Raises:
        InvalidError: two credentials, or a value that is none.
    """
    try:
        tls = tls_config(
            texts.text("tlsMode", TlsMode.DISABLED.value),
            texts.values.get("tlsCertificate", ""),
            texts.values.get("tlsKey", ""),
            texts.values.get("tlsAuthorities", ""),
            needs_client=texts.flag("tlsNeedsClient", default=False),
        )
    except InvalidError as error:
        # It does not know the file.
        raise InvalidError(f"{texts.where}: {error}") from error
    is_client = texts.flag("tlsClient", default=False)
    unproven = parse_networks(
        texts.text("haUnproven", ""), f"{texts.where}: haUnproven"
    )
    return AccessSettings(_credentials(texts), tls, is_client, unproven)


def _credentials(texts: SettingTexts) -> Credentials | Path | None:
    path = texts.values.get("credentialsFile", "")
    text = texts.values.get("innerClientAuthenticationCredentials", "")
    if path and text:
        raise InvalidError(
            f"{texts.where}: credentialsFile and innerClientAuthenticationCredentials "
            "both name credentials: keep one of them"
        )
    if path:
        return Path(path)
    return credentials_of_json(text, texts.where) if text else None
