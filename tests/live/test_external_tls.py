"""Services that others run, over TLS with a private CA: those of a second cloud, certified by `whimbrel pki`."""

import json
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live.running_cloud import CLOUD, SIMULATED, RunningCloud, running_cloud
from tests.nats_servers import free_ports
from tests.processes import HANG_S, execute, program, wait_for

pytestmark = pytest.mark.long

KEYSTONE = """
[keystone]
auth_url = "{url}/identity/v3"
username = "whimbrel"
password_file = "keystone-password"
ca_file = "{ca_file}"
retries = 0
"""
SERVICES = ("image", "network", "volume")
UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"


@dataclass
class OtherCloud:
    """The services, and the CA of their certificate; other_ca: one that has nothing to do with them."""

    running: RunningCloud
    ca_file: Path
    other_ca: Path

    @property
    def url(self) -> str:
        return self.running.home.running().url

    def client(self, token: str = "", base_url: str = "") -> httpx.Client:
        trusted = ssl.create_default_context(cafile=self.ca_file)
        headers = {"X-Auth-Token": token}
        return httpx.Client(base_url=base_url or self.url, headers=headers, verify=trusted, timeout=HANG_S)

    def token(self, user: str, project: str) -> str:
        domain, passwords = {"id": "default"}, self.running.home.passwords()
        login = {"user": {"name": user, "domain": domain, "password": passwords[user]}}
        auth = {
            "identity": {"methods": ["password"], "password": login},
            "scope": {"project": {"name": project, "domain": domain}},
        }
        with self.client() as client:
            answer = client.post("/identity/v3/auth/tokens", json={"auth": auth}).raise_for_status()
        return str(answer.headers["X-Subject-Token"])

    def settings(self, directory: Path, ca_file: Path, more: str = "") -> list[str]:
        """Write the settings of a cloud that uses these services; return the options of its commands."""
        (directory / "keystone-password").write_text(self.running.home.passwords()["whimbrel"])
        file = directory / "whimbrel.toml"
        file.write_text(KEYSTONE.format(url=self.url, ca_file=ca_file) + more + CLOUD + SIMULATED)
        return ["--settings", str(file), "--data-dir", str(directory / "data")]


def whimbrel(*words: str) -> str:
    done = execute([sys.executable, "-m", "whimbrel", *words])
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check(words: list[str], *, ok: bool) -> dict[str, list[dict[str, str]]]:
    """Run `whimbrel check`; return what it found, by subject."""
    done = execute([sys.executable, "-m", "whimbrel", "check", "--json", *words])
    assert done.returncode == (0 if ok else 1), done.stdout + done.stderr
    found: dict[str, list[dict[str, str]]] = {}
    for each in json.loads(done.stdout)["checks"]:
        found.setdefault(each["subject"], []).append(each)
    return found


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherCloud]:
    directory = tmp_path_factory.mktemp("other")
    for name in ("pki", "other"):
        whimbrel("pki", "init", "--dir", str(directory / name))
        whimbrel("pki", "issue", "services", "127.0.0.1", "--dir", str(directory / name))
    pki = directory / "pki"
    settings = (
        f'[tls]\ncert_file = "{pki / "services.crt"}"\nkey_file = "{pki / "services.key"}"\n'
        f'[services]\nca_file = "{pki / "ca.crt"}"\n'
    )
    with running_cloud(directory, settings=settings) as running:
        yield OtherCloud(running, pki / "ca.crt", directory / "other" / "ca.crt")


def test_each_service_is_reached_with_a_private_ca(other: OtherCloud, tmp_path: Path) -> None:
    assert other.url.startswith("https://")
    [port] = free_ports(1)
    words = other.settings(tmp_path, other.ca_file, f'[services]\nurl = "http://127.0.0.1:{port}"\n')
    found = check(words, ok=True)
    for subject in ("identity", *SERVICES):
        assert {each["state"] for each in found[subject]} <= {"ok", "warning"}, found[subject]
    up = program("up", ["up", "--port", str(port), *words], tmp_path / "up.log")
    try:
        up.start()
        up.wait_until_it_says("Whimbrel is up")
        boot_from_a_volume(other, f"http://127.0.0.1:{port}/compute/v2.1")
    finally:
        up.end()


def boot_from_a_volume(other: OtherCloud, compute_url: str) -> None:
    """Boot with a new volume of an image and a port: all four services are asked."""
    token = other.token("demo", "demo")
    with other.client(token) as services, other.client(token, compute_url) as compute:
        [image, *_] = services.get("/image/v2/images").json()["images"]
        [network, *_] = services.get("/network/v2.0/networks").json()["networks"]
        root = {"boot_index": 0, "uuid": image["id"], "source_type": "image", "destination_type": "volume"}
        wanted = {
            "name": "tls",
            "flavorRef": "1",
            "networks": [{"uuid": network["id"]}],
            "block_device_mapping_v2": [root | {"volume_size": 1, "delete_on_termination": True}],
        }
        headers = {"OpenStack-API-Version": "compute 2.90"}
        made = compute.post("/servers", json={"server": wanted}, headers=headers)
        assert made.status_code == 202, made.text
        server = made.json()["server"]["id"]

        def shown() -> Any:
            return compute.get(f"/servers/{server}", headers=headers).json()["server"]

        seen = wait_for(shown, lambda seen: seen["status"] in ("ACTIVE", "ERROR"), "the server to run")
        assert seen["status"] == "ACTIVE", seen
        [port] = services.get("/network/v2.0/ports", params={"device_id": server}).json()["ports"]
        assert port["status"] == "ACTIVE"
        project = port["project_id"]
        [volume] = services.get(f"/volume/v3/{project}/volumes/detail").json()["volumes"]
        assert (volume["status"], volume["attachments"][0]["server_id"]) == ("in-use", server)
        compute.delete(f"/servers/{server}").raise_for_status()
        volumes = f"/volume/v3/{project}/volumes"
        wait_for(lambda: services.get(volumes).json()["volumes"], lambda left: not left, "its volume to be deleted")


def test_a_keystone_of_another_ca_is_refused_by_name(other: OtherCloud, tmp_path: Path) -> None:
    found = check(other.settings(tmp_path, other.other_ca), ok=False)
    [identity] = found["identity"]
    assert identity["state"] == "failed"
    assert UNTRUSTED in identity["text"]
    assert "'ca_file' in [keystone]" in identity["advice"]


@pytest.mark.parametrize("service", SERVICES)
def test_so_is_each_other_service(other: OtherCloud, tmp_path: Path, service: str) -> None:
    """The endpoint of one service is at a server with a certificate of another CA."""
    with untrusted_server(other.other_ca.with_name("services.crt")) as url:
        found = check(other.settings(tmp_path, other.ca_file, f'[services]\n{service} = "{url}"\n'), ok=False)
    failed = {subject: each for subject, all_of in found.items() for each in all_of if each["state"] == "failed"}
    assert list(failed) == [service]
    assert UNTRUSTED in failed[service]["text"]
    assert "'ca_file' in [keystone]" in failed[service]["text"]


@contextmanager
def untrusted_server(certificate: Path) -> Iterator[str]:
    """Listen with a certificate, whose key is beside it; yield the URL. No request gets as far as the server."""
    server = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_process_that_does_not_trust_keystone_says_so_and_admits_nobody(other: OtherCloud, tmp_path: Path) -> None:
    [port] = free_ports(1)
    words = other.settings(tmp_path, other.other_ca)
    up = program("up", ["up", "--port", str(port), *words], tmp_path / "up.log")
    try:
        up.start()
        up.wait_until_it_says("Whimbrel is up")
        with other.client(other.token("demo", "demo"), f"http://127.0.0.1:{port}/compute/v2.1") as compute:
            assert compute.get("/servers").status_code == 503
        up.wait_until_it_says(UNTRUSTED)
    finally:
        up.end()
    assert "'ca_file' in [keystone]" in (tmp_path / "up.log").read_text()
