"""
Keys, certificates and users of the replicated part, as ``pystore init-cluster`` makes
them.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Sequence
from pathlib import Path

from pystore.access.cluster_files import ClusterPlan, cluster_files
from pystore.access.cluster_folder import write_cluster
from pystore.access.credentials import CredentialsFile
from pystore.access.signer import RequestSigner
from pystore.net.tls import ClientTls, TlsConfig
from pystore.remoting.client import RemotingClient

__all__ = ["OpenSet", "SecuredSet", "Settings"]

Settings = dict[str, str | int]

_DAYS = 2


class OpenSet:
    """
    A set without users and TLS.
    """

    def controller(self, number: int) -> Settings:  # noqa: ARG002
        """
        Returns more settings of a controller, from 1.
        """
        return {}

    def broker(self, number: int) -> Settings:  # noqa: ARG002
        """
        Returns more settings of a broker, from 1.
        """
        return {}

    @property
    def admin_words(self) -> list[str]:
        """
        What ``pystore admin`` needs before its command.
        """
        return []

    def client(self) -> RemotingClient:
        """
        Returns a client of the controllers.
        """
        return RemotingClient()


class SecuredSet(OpenSet):
    """
    A set in which each request is signed, each link proven, and all speak TLS.

    Args:
        folder: of the files; it must not exist.
        name: of the broker set.
        controllers: ``HOST:PORT`` of each.
        brokers: ``HOST:PORT`` of each.
        zookeeper: the servers of the records; empty: none.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        controllers: Sequence[str],
        brokers: Sequence[str],
        zookeeper: str = "",
    ) -> None:
        self._folder = folder
        plan = ClusterPlan(
            name,
            controllers,
            [(name, one) for one in brokers],
            zookeeper=zookeeper,
            days=_DAYS,
        )
        write_cluster(folder, cluster_files(plan, dt.datetime.now(dt.UTC)))

    def controller(self, number: int) -> Settings:
        """
        Returns more settings of a controller, from 1.
        """
        place = self._folder / f"controller-{number}"
        return self._tls(place) | {
            "keyFile": os.fspath(place / "cluster.key"),
            "initialUsers": os.fspath(place / "users.sealed"),
            "authentication": "enforcing",
        }

    def broker(self, number: int) -> Settings:
        """
        Returns more settings of a broker, from 1.
        """
        place = self._folder / f"broker-{number}"
        return self._tls(place) | {"credentialsFile": os.fspath(place / "brokers.yml")}

    def _tls(self, place: Path) -> Settings:
        return {
            "tlsMode": "enforcing",
            "tlsCertificate": os.fspath(place / "certificate.pem"),
            "tlsKey": os.fspath(place / "certificate.key"),
            "tlsAuthorities": os.fspath(place / "ca.pem"),
            "tlsClient": True,
        }

    @property
    def admin_words(self) -> list[str]:
        """
        What ``pystore admin`` needs before its command.
        """
        own, authority = self._folder / "operator.yml", self._folder / "ca.pem"
        words = ["--credentials", os.fspath(own)]
        return [*words, "--tls-authorities", os.fspath(authority)]

    def client(self) -> RemotingClient:
        """
        Returns a client of the controllers, which signs as a reader.
        """
        own = CredentialsFile(self._folder / "clients.yml")
        tls = ClientTls(TlsConfig(authorities=self._folder / "ca.pem"))
        return RemotingClient(signs=RequestSigner(own.now).sign, tls=tls)
