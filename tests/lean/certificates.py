"""Certificates of a small authority of the tests' own."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Authority"]

_DAY = datetime.timedelta(days=1)


class Authority:
    """A certificate authority that keeps its files in a directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("Test Authority")
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = (
            _builder(self._name, self._name, self._key, now - _DAY, now + _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_signing_only(), critical=True)
        )
        self.bundle = self._write("ca.pem", _pem(builder.sign(self._key, hashes.SHA256())))
        """File with its own certificate, which clients may trust."""

    def server(self, name: str, *, days: int = 1) -> ssl.SSLContext:
        """The context of a server whose certificate is for ``name`` alone.

        :param days: from now to the end of the certificate; below zero for one that has expired.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        end = datetime.datetime.now(datetime.timezone.utc) + days * _DAY
        subject: x509.GeneralName = x509.DNSName(name)
        if name[0].isdigit():
            subject = x509.IPAddress(ipaddress.ip_address(name))
        builder = (
            _builder(_name("server"), self._name, key, end - 10 * _DAY, end)
            .add_extension(x509.SubjectAlternativeName([subject]), critical=False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        )
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file = self._write("server.pem", private + _pem(builder.sign(self._key, hashes.SHA256())))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _write(self, name: str, content: bytes) -> str:
        path = self._directory / name
        path.write_bytes(content)
        return str(path)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    start: datetime.datetime,
    end: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
    )


def _signing_only() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
