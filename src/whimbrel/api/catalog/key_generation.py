"""Generation and fingerprints of SSH keys and X.509 certificates.

Invariant: a private key is returned to the requester and never stored.

The cryptography package is imported on first use, so that processes start without it.
"""

import binascii
import hashlib
from base64 import b64decode
from datetime import UTC, datetime, timedelta

import msgspec

from whimbrel.domain.errors import Invalid
from whimbrel.ports.stores.catalog import GENERATED, GENERATED_SSH

RSA_BITS = 2048
CERTIFICATE_DAYS = 3650

UTF8_STRING, IA5_STRING = b"\x0c", b"\x16"  # tags of ASN.1
NETSCAPE_COMMENT = "2.16.840.1.113730.1.13"  # as `openssl` has it in its certificates


class KeyPair(msgspec.Struct, frozen=True):
    private: str
    public: str


def new_ssh() -> KeyPair:
    """Generate an RSA key in the formats of OpenSSH. Uses tens of milliseconds of processor time."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return KeyPair(_pem(key), f"{public.decode()} {GENERATED_SSH}")


def new_x509(user_id: str, now: float) -> KeyPair:
    """Generate a key and its certificate, which names the user as Windows remote management requires."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

    key = rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, user_id[:64])])
    begin = datetime.fromtimestamp(now, UTC)
    principal = x509.OtherName(ObjectIdentifier("1.3.6.1.4.1.311.20.2.3"), _der(UTF8_STRING, f"{user_id}@localhost"))
    comment = x509.UnrecognizedExtension(ObjectIdentifier(NETSCAPE_COMMENT), _der(IA5_STRING, GENERATED))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=CERTIFICATE_DAYS))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([principal]), critical=False)
        .add_extension(comment, critical=False)
        .sign(key, hashes.SHA256())
    )
    return KeyPair(_pem(key), certificate.public_bytes(serialization.Encoding.PEM).decode())


def ssh_fingerprint(public_key: str) -> str:
    """Return the MD5 fingerprint of an SSH public key. Raises: Invalid: not a public key."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    try:
        load_ssh_public_key(public_key.encode())
        data = b64decode(public_key.split()[1])
    except UnsupportedAlgorithm:
        data = _blob(public_key)  # a key type that the package does not support (of a security token, for example)
    except (ValueError, IndexError, binascii.Error):
        raise _unreadable() from None
    return _colons(hashlib.md5(data, usedforsecurity=False).hexdigest())


def x509_fingerprint(certificate: str) -> str:
    """Return the SHA-1 fingerprint of a certificate. Raises: Invalid: not a certificate."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    try:
        loaded = x509.load_pem_x509_certificate(certificate.encode())
    except ValueError:
        raise _unreadable() from None
    return _colons(loaded.fingerprint(hashes.SHA1()).hex())


def _blob(public_key: str) -> bytes:
    """Return the data of `type base64 comment`. Raises: Invalid: the data does not begin with the type."""
    try:
        kind, text = public_key.split()[:2]
        data = b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise _unreadable() from None
    length = int.from_bytes(data[:4], "big")
    if data[4 : 4 + length] != kind.encode():
        raise _unreadable()
    return data


def _pem(key: object) -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

    assert isinstance(key, RSAPrivateKey)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    ).decode()


def _der(tag: bytes, text: str) -> bytes:
    """Encode a text in ASN.1: tag, length, bytes."""
    data = text.encode()
    size = len(data).to_bytes((len(data).bit_length() + 7) // 8, "big")
    length = size if len(data) < 128 else bytes([0x80 | len(size)]) + size
    return tag + length + data


def _colons(digest: str) -> str:
    return ":".join(digest[place : place + 2] for place in range(0, len(digest), 2))


def _unreadable() -> Invalid:
    return Invalid("Keypair data is invalid: failed to generate fingerprint")
