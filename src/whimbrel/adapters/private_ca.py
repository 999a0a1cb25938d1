"""A private certificate authority (CA) in a directory, for TLS of the APIs, NATS and PostgreSQL.

It is for operators that have no CA.

Invariant: no file is overwritten, except that a renewal replaces a certificate in one atomic step. Private keys have
mode 0600 from the moment that they exist. A certificate never outlives the CA that signed it.

`ca.crt` is what clients trust; `NAME.crt` and `NAME.key` are what a process presents.
"""

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from tempfile import mkstemp
from typing import Literal

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID as Purpose

from whimbrel.adapters import file_modes
from whimbrel.domain.errors import Invalid, NotFound, Refused

Use = Literal["server", "client", "both"]
Put = Callable[[str, Path], None]

CA = "ca"
CERTIFICATE_MODE = 0o644
YEAR_DAYS = 365
PAST = timedelta(hours=1)
"""Certificates are valid from this long ago: clocks of machines differ."""
PURPOSES: dict[Use, list[x509.ObjectIdentifier]] = {
    "server": [Purpose.SERVER_AUTH],
    "client": [Purpose.CLIENT_AUTH],
    "both": [Purpose.SERVER_AUTH, Purpose.CLIENT_AUTH],
}

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")  # also the name of a file, and a subject has 64 characters
_DNS_NAME = re.compile(r"(\*\.)?([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.?)+")


class Issued(msgspec.Struct, frozen=True):
    """A certificate of the directory."""

    name: str
    use: Use | Literal["ca"]
    names: list[str]
    """DNS names and addresses for which it is valid."""
    expires_at: datetime
    sha256: str
    """Fingerprint in hexadecimal digits."""


class PrivateCa:
    """The CA and the certificates in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def create(self, common_name: str, days: int, now: datetime) -> Issued:
        """Make the key and the certificate of the CA. Raises: Refused: there is one; Invalid."""
        self.directory.mkdir(mode=file_modes.DIRECTORY, parents=True, exist_ok=True)
        self._refuse_existing(CA)
        subject = _subject(common_name)
        key = self._make_key(CA)
        return self._store(CA, self._signed(subject, key.public_key(), days, now, key), _put_new)

    def issue(self, name: str, names: Sequence[str], use: Use, days: int | None, now: datetime) -> Issued:
        """Make a key and a certificate.

        name: of the files, and the subject's common name. names: DNS names and addresses; a server without any has
        `name`. days: None: a year, or less if the CA expires earlier.
        Raises: Refused: it exists, or would outlive the CA; NotFound: there is no CA; Invalid.
        """
        if not _NAME.fullmatch(name) or name == CA:
            raise Invalid(f"'{name}' cannot name a certificate: use letters, digits and .-_, and not '{CA}'")
        self._refuse_existing(name)
        left = self._read(CA).not_valid_after_utc - now
        extensions = _leaf_extensions(names or ([name] if use != "client" else []), use)
        chosen = days if days is not None else max(1, min(YEAR_DAYS, left.days))
        self._check_term(name, chosen, now)
        ca_key, key = self._load_key(CA), self._make_key(name)
        made = self._signed(_subject(name), key.public_key(), chosen, now, ca_key, extensions)
        return self._store(name, made, _put_new)

    def renew(self, name: str, days: int | None, now: datetime) -> Issued:
        """Replace a certificate by a newer one of the same key, names and use.

        Certificates that a CA signed remain valid after its renewal. days: None: as many as before.
        Raises: NotFound: there is none; Refused: it would outlive the CA; Invalid.
        """
        old = self._read(name)
        key = old.public_key()
        if not isinstance(key, EllipticCurvePublicKey):
            raise Refused(_other_kind(self._path(name, "crt")))
        chosen = days if days is not None else (old.not_valid_after_utc - old.not_valid_before_utc - PAST).days
        if name == CA:
            made = self._signed(old.subject, key, chosen, now, self._load_key(CA))
        else:
            self._check_term(name, chosen, now)
            found = _described(name, old)
            if found.use == "ca":
                raise Refused(f"{self._path(name, 'crt')} is not from whimbrel pki: renew it where it is from")
            extensions = _leaf_extensions(found.names, found.use)
            made = self._signed(old.subject, key, chosen, now, self._load_key(CA), extensions)
        return self._store(name, made, os.replace)

    def list(self) -> "list[Issued]":
        """Return the CA and all certificates by name. Raises: NotFound: there is no CA."""
        names = sorted(path.stem for path in self.directory.glob("*.crt") if path.stem != CA)
        return [_described(name, self._read(name)) for name in (CA, *names)]

    def _signed(
        self,
        subject: x509.Name,
        key: EllipticCurvePublicKey,
        days: int,
        now: datetime,
        ca_key: EllipticCurvePrivateKey,
        extensions: "Sequence[x509.ExtensionType] | None" = None,
    ) -> x509.Certificate:
        """Sign a certificate. extensions: None: it is the CA's own."""
        own = (x509.BasicConstraints(ca=True, path_length=0), _key_usage(signs_certificates=True))
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if extensions is None else self._read(CA).subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - PAST)
            .not_valid_after(_end(now, days))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        )
        for extension in own if extensions is None else extensions:
            critical = isinstance(extension, x509.BasicConstraints | x509.KeyUsage)
            builder = builder.add_extension(extension, critical)
        return builder.sign(ca_key, hashes.SHA256())

    def _check_term(self, name: str, days: int, now: datetime) -> None:
        """Raises: Refused: a certificate would outlive its CA."""
        ends = self._read(CA).not_valid_after_utc
        if _end(now, days) > ends:
            raise Refused(
                f"{name} would be valid longer than its CA, which expires on {ends:%Y-%m-%d}: choose fewer --days, or"
                f" whimbrel pki renew {CA}"
            )

    def _refuse_existing(self, name: str) -> None:
        path = self._path(name, "crt")
        if path.exists():
            raise Refused(f"{path} exists and is not overwritten: whimbrel pki renew {name}")

    def _make_key(self, name: str) -> EllipticCurvePrivateKey:
        """Make a private key, or return the one there: without a certificate, it is of an interrupted call."""
        if self._path(name, "key").exists():
            return self._load_key(name)
        key = ec.generate_private_key(ec.SECP256R1())
        encoded = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        _write(self._path(name, "key"), encoded, file_modes.FILE, _put_new)
        return key

    def _load_key(self, name: str) -> EllipticCurvePrivateKey:
        path = self._path(name, "key")
        file_modes.narrow(path, file_modes.FILE)
        try:
            key = serialization.load_pem_private_key(path.read_bytes(), None)
        except FileNotFoundError:
            raise NotFound(f"there is no {path}: put it there while certificates are issued") from None
        except (ValueError, TypeError) as error:
            raise Refused(f"{path} is no private key in PEM without a password ({error})") from None
        if not isinstance(key, EllipticCurvePrivateKey):
            raise Refused(_other_kind(path))
        return key

    def _read(self, name: str) -> x509.Certificate:
        path = self._path(name, "crt")
        try:
            return x509.load_pem_x509_certificate(path.read_bytes())
        except FileNotFoundError:
            advice = f"whimbrel pki init --dir {self.directory}" if name == CA else "whimbrel pki list"
            raise NotFound(f"there is no {path}: {advice}") from None
        except ValueError as error:
            raise Refused(f"{path} is no certificate in PEM ({error})") from None

    def _store(self, name: str, certificate: x509.Certificate, put: "Put") -> Issued:
        encoded = certificate.public_bytes(serialization.Encoding.PEM)
        _write(self._path(name, "crt"), encoded, CERTIFICATE_MODE, put)
        return _described(name, certificate)

    def _path(self, name: str, kind: Literal["crt", "key"]) -> Path:
        return self.directory / f"{name}.{kind}"


def _end(now: datetime, days: int) -> datetime:
    try:
        if days >= 1:
            return now + timedelta(days=days)
    except OverflowError:
        pass
    raise Invalid(f"--days {days} is no term of a certificate: choose 1 or more, and a year before 10000")


def _leaf_extensions(names: Sequence[str], use: Use) -> list[x509.ExtensionType]:
    extensions: list[x509.ExtensionType] = [
        x509.BasicConstraints(ca=False, path_length=None),
        _key_usage(signs_certificates=False),
        x509.ExtendedKeyUsage(PURPOSES[use]),
    ]
    if names:
        extensions.append(x509.SubjectAlternativeName([_general_name(each) for each in names]))
    return extensions


def _other_kind(path: Path) -> str:
    return f"{path} has a key of another kind: whimbrel pki uses keys of elliptic curves"


def _subject(common_name: str) -> x509.Name:
    try:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])
    except ValueError as error:
        raise Invalid(f"'{common_name}' cannot be the name in a certificate: {error}") from None


def _key_usage(signs_certificates: bool) -> x509.ExtensionType:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    """Raises: Invalid: neither a DNS name nor an address."""
    address = _address(name)
    if address is not None:
        return x509.IPAddress(address)
    if len(name) > 253 or not _DNS_NAME.fullmatch(name):
        raise Invalid(f"'{name}' is neither an IP address nor a DNS name (names in other scripts: write them as xn--)")
    return x509.DNSName(name)


def _address(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(name)
    except ValueError:
        return None


def _described(name: str, certificate: x509.Certificate) -> Issued:
    found = {type(each.value): each.value for each in certificate.extensions}
    purposes = set(found.get(x509.ExtendedKeyUsage, ()))
    uses: list[Use] = [use for use, those in PURPOSES.items() if set(those) == purposes]
    return Issued(
        name=name,
        use=uses[0] if uses else "ca",
        names=[str(each.value) for each in found.get(x509.SubjectAlternativeName, ())],
        expires_at=certificate.not_valid_after_utc,
        sha256=certificate.fingerprint(hashes.SHA256()).hex(),
    )


def _write(path: Path, content: bytes, mode: int, put: "Put") -> None:
    """Write a file completely or not at all. put: how the complete file gets its name."""
    descriptor, part = mkstemp(dir=path.parent, prefix=f".{path.name}.")  # with mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(descriptor, mode)
            file.flush()
            os.fsync(descriptor)
        put(part, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(part)


def _put_new(part: str, path: Path) -> None:
    """Raises: Refused: there is a file of this name."""
    try:
        os.link(part, path)
    except FileExistsError:
        raise Refused(f"{path} exists and is not overwritten") from None
