"""
The certificates of a cluster: an authority of its own, and one certificate for each
host that it signs.

Elliptic curve P-256: small keys, and the fastest handshakes of what every peer knows.

Source: RFC 5280; docs/security.md, *A new cluster*.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from typing import TYPE_CHECKING, NamedTuple

from pystore.errors import InvalidError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

__all__ = ["CertificateAuthority", "PemPair"]

_BEFORE = dt.timedelta(hours=1)
"""Clocks of hosts differ."""


class PemPair(NamedTuple):
    """
    A certificate and its key, in PEM.
    """

    certificate: bytes
    key: bytes


class CertificateAuthority:
    """
    Makes the certificates of one cluster.

    Args:
        name: of the cluster, for people.
        days: how long all its certificates are valid.
        now: the time of day.

    Attributes:
        pair: its own certificate and key.

    Raises:
        InvalidError: cryptography is missing.
    """

    def __init__(self, name: str, days: int, now: dt.datetime) -> None:
        try:
            from cryptography import x509  # noqa: PLC0415
            from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
        except ImportError as error:
            # An extra.
            raise InvalidError(
                "certificates need cryptography: pip install "
                "'pystore-commitlog[security]'"
            ) from error
        self._begin, self._end = now - _BEFORE, now + dt.timedelta(days=days)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        signs = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        made = (
            self._builder(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(signs, critical=True)
        )
        self.pair = self._signed(made, self._key)

    def issue(self, host: str) -> PemPair:
        """
        Returns a certificate for a host, as server and client.

        Args:
            host: a name or an IP address.
        """
        from cryptography import x509  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
        from cryptography.x509.oid import ExtendedKeyUsageOID  # noqa: PLC0415

        try:
            place: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            # A name.
            place = x509.DNSName(host)
        key = ec.generate_private_key(ec.SECP256R1())
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        own = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = (
            self._builder(_named(host), key)
            .add_extension(x509.SubjectAlternativeName([place]), critical=False)
            .add_extension(
                x509.BasicConstraints(ca=False, path_length=None), critical=True
            )
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .add_extension(own, critical=False)
        )
        return self._signed(made, key)

    def _builder(
        self, subject: x509.Name, key: EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        from cryptography import x509  # noqa: PLC0415

        public = key.public_key()
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._begin)
            .not_valid_after(self._end)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(public), critical=False
            )
        )

    def _signed(
        self, made: x509.CertificateBuilder, key: EllipticCurvePrivateKey
    ) -> PemPair:
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
            Encoding,
            NoEncryption,
            PrivateFormat,
        )

        certificate = made.sign(self._key, hashes.SHA256())
        return PemPair(
            certificate.public_bytes(Encoding.PEM),
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        )


def _named(text: str) -> x509.Name:
    from cryptography import x509  # noqa: PLC0415
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    # A common name has 64 characters at most; the host is in the alternative name.
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])
