"""A process with services that others run: their front ends, seeds and tables stay away, and nothing waits for them."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest

from tests.bootstrap.test_process_factory import ONE, Home
from whimbrel import settings
from whimbrel.adapters.private_ca import PrivateCa
from whimbrel.bootstrap import process_factory
from whimbrel.bootstrap.apps import endpoints
from whimbrel.bootstrap.connection_check import check_connections
from whimbrel.bootstrap.http_server import front
from whimbrel.bootstrap.process import Process
from whimbrel.bootstrap.process_base import Start
from whimbrel.bootstrap.registration import this_process
from whimbrel.bootstrap.roles import IMAGE_RELAY, Role
from whimbrel.bootstrap.service_processes import open_service
from whimbrel.cli import role_processes
from whimbrel.cli.role_options import ServiceOptions
from whimbrel.domain.errors import Invalid, Unavailable

NOBODY = "http://127.0.0.1:1"  # no service answers there
KEYSTONE = f'[keystone]\nauth_url = "{NOBODY}/v3"\nusername = "whimbrel"\npassword_file = "password"\nretries = 0\n'


class ExternalHome(Home):
    """A data directory of a cloud with a Keystone."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        (path / "password").write_text("secret")

    async def start_up(self, text: str) -> Process:
        config = self.config(text)
        role = Role(
            name="up", has_front_ends=True, has_hosts=True, migrates=True,
            has_images="image" not in config.external, has_volumes="volume" not in config.external,
        )  # fmt: skip
        record = this_process("up", "main", "here", "lock")
        return await process_factory.open_process(Start(role, config, self.data.database_url, record, self.data))

    @property
    def stores(self) -> set[str]:
        return {file.stem for file in (self.data.path / "db").glob("*.sqlite")}


async def test_external_services_have_no_front_end_and_no_tables(tmp_path: Path) -> None:
    home = ExternalHome(tmp_path)
    process = await home.start_up(KEYSTONE + ONE)
    try:
        assert set(endpoints(process, home.data, None)) == {"compute", "placement", "console", "dashboard", "internal"}
        assert home.stores == {"global", "placement", "keep", "cell_one"}
        assert process.own_accounts is None
    finally:
        await process.close()


async def test_the_services_that_the_settings_do_not_name_are_embedded(tmp_path: Path) -> None:
    home = ExternalHome(tmp_path)
    process = await home.start_up(KEYSTONE + 'services = ["image"]\n' + ONE)
    try:
        mounted = {"compute", "placement", "console", "dashboard", "internal", "network", "volume"}
        assert set(endpoints(process, home.data, None)) == mounted
        assert home.stores == {"global", "placement", "keep", "cell_one", "network", "volumes"}
    finally:
        await process.close()


async def test_a_service_that_does_not_answer_is_no_answer(tmp_path: Path) -> None:
    home = ExternalHome(tmp_path)
    process = await home.start_up(KEYSTONE + ONE)
    try:
        with pytest.raises(Unavailable):
            await process.identity.principal("a token")
        for asked in (
            process.cloud.images.show("i"), process.cloud.network.port("p"), process.cloud.volumes.volume("v"),
        ):  # fmt: skip
            with pytest.raises(Unavailable):
                await asked
    finally:
        await process.close()


def test_the_process_of_a_volume_service_is_refused_if_others_run_it(tmp_path: Path) -> None:
    (tmp_path / "whimbrel.toml").write_text(KEYSTONE)
    options = ServiceOptions(data_dir=tmp_path, settings_file=tmp_path / "whimbrel.toml")
    with pytest.raises(Invalid, match="'volume' among its 'services'"):
        role_processes.volume(port=0, service=options)


async def test_any_number_of_processes_relay_images_of_a_service_that_others_run(tmp_path: Path) -> None:
    home = ExternalHome(tmp_path)
    await (await home.start_up(KEYSTONE + ONE)).close()  # makes the tables
    async with AsyncExitStack() as opened:
        for name in ("one", "two"):
            record = this_process("image-relay", name)
            relay = await open_service(Start(IMAGE_RELAY, home.config(KEYSTONE + ONE), home.data.database_url, record))
            opened.push_async_callback(relay.close)
            transport = httpx.ASGITransport(front({relay.name: relay.app}))
            async with httpx.AsyncClient(transport=transport, base_url="http://relay") as client:
                answer = await client.get("/image_relay/v2/images/i", headers={"X-Auth-Token": "a token"})
            assert (answer.status_code, "This grant is not valid" in answer.text) == (401, True)


async def test_a_check_without_cells_fails(tmp_path: Path) -> None:
    home = ExternalHome(tmp_path)
    file = tmp_path / "whimbrel.toml"
    file.write_text(KEYSTONE)
    checked = await check_connections(settings.load(file, needs_cells=False), home.data.database_url)
    [found] = [each for each in checked if each.subject == "cells"]
    assert found.state == "failed"
    assert "[[cell]]" in found.advice
    checked = await check_connections(home.config(KEYSTONE + ONE), home.data.database_url)
    assert "cells" not in {each.subject for each in checked}


async def test_a_check_tells_how_another_clouds_entry_is_replaced(tmp_path: Path) -> None:
    with keystone_with_a_nova() as url:
        home = ExternalHome(tmp_path)
        text = KEYSTONE.replace(NOBODY, url) + 'services = []\n[services]\nurl = "https://w"\n' + ONE
        checked = await check_connections(home.config(text), home.data.database_url)
    advice = {each.text.split()[0]: each.advice for each in checked if each.subject == "catalog"}
    register = "run `whimbrel bootstrap --register"
    assert advice == {"compute": f"{register} --replace`", "the": f"{register}`"}  # "the catalog has no ..."


async def test_a_service_that_the_catalog_lacks_is_told_with_the_settings(tmp_path: Path) -> None:
    with keystone_with_a_nova() as url:
        home = ExternalHome(tmp_path)
        checked = await check_connections(home.config(KEYSTONE.replace(NOBODY, url) + ONE), home.data.database_url)
    missing = [each for each in checked if each.subject in ("image", "network", "volume")]
    assert [(each.state, "'region' and 'interface'" in each.advice) for each in missing] == [("failed", True)] * 3


@pytest.mark.parametrize("trusts", [True, False])
async def test_the_certificate_of_a_keystone_is_verified_by_a_file_of_ones_own(tmp_path: Path, trusts: bool) -> None:
    home, authority, now = ExternalHome(tmp_path), PrivateCa(tmp_path / "pki"), datetime.now(UTC)
    authority.create("CA", 10, now)
    authority.issue("keystone", ["127.0.0.1"], "server", None, now)
    with keystone_with_a_nova(tmp_path / "pki" / "keystone.crt") as url:
        ca_file = f'ca_file = "{tmp_path / "pki" / "ca.crt"}"\n' if trusts else ""
        config = home.config(KEYSTONE.replace(NOBODY, url) + ca_file + "services = []\n" + ONE)
        checked = await check_connections(config, home.data.database_url)
    found, *_ = [each for each in checked if each.subject == "identity"]
    assert (found.state, "'ca_file' in [keystone]" in found.advice) == (("ok", False) if trusts else ("failed", True))
    assert trusts or "certificate" in found.text


@pytest.mark.parametrize("has", ["both files", "one file", "nothing", "another's"])
async def test_a_keystone_that_wants_a_certificate_gets_it(tmp_path: Path, has: str) -> None:
    home, now = ExternalHome(tmp_path), datetime.now(UTC)
    for name in ("pki", "other"):
        authority = PrivateCa(tmp_path / name)
        authority.create(name, 10, now)
        authority.issue("keystone", ["127.0.0.1"], "server", None, now)
        authority.issue("whimbrel", [], "client", None, now)
    pki, mine = tmp_path / "pki", tmp_path / ("other" if has == "another's" else "pki") / "whimbrel.crt"
    keys = f'ca_file = "{pki / "ca.crt"}"\n'
    if has == "one file":
        mine.write_bytes(mine.read_bytes() + mine.with_suffix(".key").read_bytes())
    elif has != "nothing":
        keys += f'key_file = "{mine.with_suffix(".key")}"\n'
    if has != "nothing":
        keys += f'cert_file = "{mine}"\n'
    with keystone_with_a_nova(pki / "keystone.crt", clients=pki / "ca.crt") as url:
        config = home.config(KEYSTONE.replace(NOBODY, url) + keys + "services = []\n" + ONE)
        checked = await check_connections(config, home.data.database_url)
    found, *_ = [each for each in checked if each.subject == "identity"]
    assert found.state == ("ok" if has in ("both files", "one file") else "failed"), found
    assert found.state == "ok" or "'cert_file'" in found.advice


async def test_a_file_without_certificates_is_refused(tmp_path: Path) -> None:
    home = ExternalHome(tmp_path)
    for file in (tmp_path / "none.crt", tmp_path / "password"):
        with pytest.raises(Invalid, match=f"'ca_file' is {file}, which cannot be used: .*; name a file"):
            await home.start_up(f'{KEYSTONE}ca_file = "{file}"\n{ONE}')
        with pytest.raises(Invalid, match=f"'cert_file' is {file}, which cannot be used .*: name a certificate"):
            await home.start_up(f'{KEYSTONE}cert_file = "{file}"\n{ONE}')


@contextmanager
def keystone_with_a_nova(certificate: Path | None = None, clients: Path | None = None) -> Iterator[str]:
    """Serve logins whose catalog has another compute service, and no Placement; yield the URL.

    certificate: with its key beside it; None: without TLS. clients: the CA of the certificates that clients must have.
    """
    server = HTTPServer(("127.0.0.1", 0), _Keystone)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        if clients:
            context.load_verify_locations(clients)
            context.verify_mode = ssl.CERT_REQUIRED
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Keystone(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        endpoints = [{"region_id": "R1", "interface": "public", "url": "http://nova/v2.1"}]
        catalog = [{"type": "compute", "endpoints": endpoints}]
        roles = [{"name": "admin"}, {"name": "service"}]
        token = {"expires_at": "2999-01-01T00:00:00.000000Z", "catalog": catalog, "roles": roles}
        content = json.dumps({"token": token}).encode()
        self.send_response(201)
        self.send_header("X-Subject-Token", "t")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the output of the tests free of requests."""
