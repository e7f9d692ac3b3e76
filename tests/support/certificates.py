"""A certificate for a server on loopback, and the authority that has signed it."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_LIFE = timedelta(days=2)


def write_certificates(folder: Path) -> tuple[Path, Path]:
    """Write `ca.pem` and `server.pem` (key and certificates); return both paths."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _certificate("authority", authority_key, "authority", authority_key)
    server_key = ec.generate_private_key(ec.SECP256R1())
    server = _certificate("server", server_key, "authority", authority_key)
    key = server_key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    pem = serialization.Encoding.PEM
    (folder / "ca.pem").write_bytes(authority.public_bytes(pem))
    (folder / "server.pem").write_bytes(
        key + server.public_bytes(pem) + authority.public_bytes(pem)
    )
    return folder / "ca.pem", folder / "server.pem"


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    signer: str,
    signer_key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    now = datetime.now(UTC)
    is_authority = name == signer
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(signer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _LIFE)
        .not_valid_after(now + _LIFE)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))]),
            critical=False,
        )
        .sign(signer_key, hashes.SHA256())
    )


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
