"""The certificate of a console relay: each process makes one, and sends it with each console address."""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

PAST = timedelta(days=1)
"""The certificate is valid from this long ago: clocks of machines differ."""
LIFETIME = timedelta(days=3650)  # longer than a process lives


@dataclass(frozen=True)
class RelayCertificate:
    context: ssl.SSLContext
    pem: str


def new_certificate() -> RelayCertificate:
    """Make a key and a certificate signed with it. The key is in files only until this returns."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "whimbrel console relay")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - PAST)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with TemporaryDirectory() as directory:  # of mode 0700
        file = Path(directory, "relay.pem")
        file.write_bytes(secret + pem)
        context.load_cert_chain(file)
    return RelayCertificate(context, pem.decode())
