"""The addresses of the NATS servers of a cloud, and how their certificates are checked."""

import ssl
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from whimbrel.domain.errors import Invalid
from whimbrel.domain.ip_addresses import is_loopback


class BusServers(msgspec.Struct, frozen=True, kw_only=True):
    """Where the servers of NATS are.

    urls: nats://HOST:PORT or tls://HOST:PORT. ca_file: the only authority whose certificates are accepted.
    Raises: Invalid: none is named, or one is to be reached without TLS though it is not on this machine.
    """

    urls: tuple[str, ...]
    ca_file: Path | None = None
    insecure: bool = False  # allows connections without TLS to other machines

    def __post_init__(self) -> None:
        if not self.urls:
            raise Invalid("no server of NATS is named: give at least one, as tls://HOST:4222")
        for url in self.urls:
            self._check(url)

    def _check(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("nats", "tls") or not parts.hostname or parts.username is not None:
            raise Invalid(f"{url!r} is no address of a NATS server: write tls://HOST:4222")
        if not (self.uses_tls or self.insecure or is_loopback(parts.hostname)):
            raise Invalid(
                f"{url} would be reached without TLS, and others on the network could read and change orders: write"
                f" tls://{parts.netloc} and name the file of the authority's certificate, or allow it with `insecure`"
            )

    @property
    def uses_tls(self) -> bool:
        return self.ca_file is not None or all(url.startswith("tls://") for url in self.urls)

    def tls_context(self) -> ssl.SSLContext | None:
        """Return what certificates are checked with; None: without TLS. Raises: Invalid: the file cannot be read."""
        if not self.uses_tls:
            return None
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise Invalid(f"the certificates of the bus cannot be read from {self.ca_file}: {error}") from None
