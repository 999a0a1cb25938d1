"""The TLS context of a server, whose certificate is replaced without a restart.

Invariant: a new certificate is used only if it and its key fit; else the server goes on with the one before.
"""

import asyncio
import ssl
from pathlib import Path

import structlog

from whimbrel.domain.errors import Invalid
from whimbrel.settings.sections import TlsTable

log = structlog.get_logger(__name__)

CHECK_S = 5.0
"""How soon changed files are noticed."""


class Certificates:
    """The certificate files of one server. Open connections keep the certificate with which they began."""

    def __init__(self, tls: TlsTable) -> None:
        """Raises: Invalid: the files cannot be used."""
        assert tls.cert_file is not None, "TLS is on"
        assert tls.key_file is not None, "the settings have both"
        self._files = Path(tls.cert_file), Path(tls.key_file)
        try:
            self._seen = self._versions()
            self.context = self._read()
        except OSError as error:
            raise Invalid(f"[tls]: {self._named()} cannot be used ({error}): name a certificate and its key") from None

    async def watch(self) -> None:
        """Read the files again whenever they change, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_S)
            self.refresh()

    def refresh(self) -> None:
        """Use the files as they are now, if they changed."""
        try:
            found = self._versions()
            if found == self._seen:
                return
            self._read()  # both fit, else the context would be left with half of them
            self.context.load_cert_chain(*self._files)
            self._seen = found
        except OSError as error:  # an ssl.SSLError too
            log.warning("the new certificate is not used", files=self._named(), reason=str(error))

    def _read(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*self._files)
        return context

    def _versions(self) -> list[tuple[int, int, int]]:
        found = [file.stat() for file in self._files]
        return [(each.st_ino, each.st_mtime_ns, each.st_size) for each in found]

    def _named(self) -> str:
        return " and ".join(map(str, self._files))
