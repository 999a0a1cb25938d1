"""The certificates that a process shows to others, and those of this cloud that it trusts: when they expire."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from cryptography import x509

from whimbrel.settings import CloudConfig
from whimbrel.status.findings import Certificate


def own_certificates(config: CloudConfig) -> list[Certificate]:
    """Return the certificates in the files of the settings, as they are now. Files that cannot be read are left out.

    `ca_file` of [keystone] is not this cloud's: it may have all authorities that the system trusts.
    """
    keystone = config.keystone.cert_file if config.keystone else None
    tables = (config.tls.cert_file, config.services.ca_file, config.bus.ca_file, keystone)
    return [found for file in dict.fromkeys(file for file in tables if file) for found in _read(Path(file))]


def _read(file: Path) -> Iterator[Certificate]:
    with suppress(OSError, ValueError):
        for each in x509.load_pem_x509_certificates(file.read_bytes()):
            name = each.subject.rfc4514_string() or f"{each.serial_number:x}"
            yield Certificate(file=str(file), name=name, expires_at=each.not_valid_after_utc.timestamp())
