"""HTTPS: a server with a certificate, which is replaced without a restart."""

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router

from whimbrel.adapters.private_ca import PrivateCa
from whimbrel.bootstrap import http_server
from whimbrel.bootstrap.http_server.certificates import Certificates
from whimbrel.domain.errors import Invalid
from whimbrel.settings.sections import HttpTable, TlsTable


class Files:
    """The certificate files of a server, as an operator replaces them."""

    def __init__(self, directory: Path) -> None:
        self._ca = PrivateCa(directory / "pki")
        self._ca.create("test", 30, datetime.now(UTC))
        self._directory = directory
        self.table = TlsTable(cert_file=str(directory / "cert.pem"), key_file=str(directory / "key.pem"))
        self.put("first")

    def put(self, name: str, *, key: bool = True) -> None:
        """Issue a certificate and put it in place. key: its key too."""
        self._ca.issue(name, ["127.0.0.1"], "server", None, datetime.now(UTC))
        shutil.copy(self._ca.directory / f"{name}.crt", self._directory / "cert.pem")
        if key:
            shutil.copy(self._ca.directory / f"{name}.key", self._directory / "key.pem")

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self._ca.directory / "ca.crt"))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


async def scheme(request: Request) -> Response:
    return PlainTextResponse(request.url.scheme)


@asynccontextmanager
async def serving(table: TlsTable) -> AsyncIterator[str]:
    endpoint = http_server.listen("127.0.0.1", 0)
    stop, ready, app = asyncio.Event(), asyncio.Event(), Router([Route("/", scheme)])
    work = asyncio.create_task(http_server.serve(app, endpoint, stop, ready.set, HttpTable(), table))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait((work, waiting), return_when=asyncio.FIRST_COMPLETED)
    try:
        yield http_server.url_of(endpoint, table)
    finally:
        waiting.cancel()
        stop.set()
        await work


async def test_requests_arrive_over_tls_only(files: Files) -> None:
    async with serving(files.table) as url, httpx.AsyncClient(verify=files.trust()) as client:
        assert url.startswith("https://127.0.0.1:")
        assert (await client.get(url)).text == "https"
        with pytest.raises(httpx.ConnectError):
            async with httpx.AsyncClient() as stranger:  # which trusts the authorities of the system
                await stranger.get(url)
        with pytest.raises(httpx.HTTPError):
            await client.get(url.replace("https", "http"))


def name_of(certificates: Certificates, files: Files) -> str:
    """Return the name in the certificate that a client is shown now."""
    mine, its = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = certificates.context.wrap_bio(mine, its, server_side=True)
    client = files.trust().wrap_bio(its, mine, server_hostname="127.0.0.1")
    done: set[ssl.SSLObject] = set()
    while len(done) < 2:
        for side in (client, server):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                pass
    subject = client.getpeercert() or {}
    return str(dict(part[0] for part in subject["subject"])["commonName"])


def test_a_new_certificate_is_used_without_a_restart(files: Files) -> None:
    certificates = Certificates(files.table)
    assert name_of(certificates, files) == "first"
    files.put("second")
    certificates.refresh()
    assert name_of(certificates, files) == "second"


def test_half_a_replacement_is_not_used(files: Files) -> None:
    """An operator replaces two files, and a check may fall between them."""
    certificates = Certificates(files.table)
    files.put("second", key=False)
    certificates.refresh()
    assert name_of(certificates, files) == "first"
    files.put("third")
    certificates.refresh()
    assert name_of(certificates, files) == "third"


async def test_a_server_without_its_files_does_not_start(files: Files, tmp_path: Path) -> None:
    (tmp_path / "key.pem").unlink()
    with pytest.raises(Invalid, match=r"\[tls\]: .*cert.pem and .*key.pem cannot be used"):
        async with serving(files.table):
            pass
