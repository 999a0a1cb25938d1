"""The client of the commands trusts a cloud's certificate as its clouds.yaml says."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from whimbrel.adapters.private_ca import PrivateCa
from whimbrel.cli.client import Api, Login
from whimbrel.domain.errors import Invalid, Refused, Unavailable
from whimbrel.settings.datadir import DataDir, Running

CLOUDS = """
clouds:
  one:
    {trust}
    auth: {{auth_url: "https://localhost:{port}/v3", username: u, password: p, project_name: p,
            user_domain_id: default, project_domain_id: default}}
"""


class Denies(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.send_response(401)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@contextmanager
def serving(certificate: Path, key: Path) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Denies)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a CA, and a certificate of `localhost`."""
    directory = tmp_path_factory.mktemp("pki")
    authority, now = PrivateCa(directory), datetime.now(UTC)
    authority.create("CA", 10, now)
    authority.issue("api", ["localhost"], "server", None, now)
    return directory


def test_what_starts_a_cloud_is_said_only_of_the_directory_of_an_up(tmp_path: Path) -> None:
    file = tmp_path / "clouds.yaml"
    file.write_text(CLOUDS.format(trust="verify: false", port=1))
    with pytest.raises(Unavailable, match=rf"at https://localhost:1/.*It is cloud 'one' of {file}"):
        Api(Login(file, "one")).log_in()
    DataDir(tmp_path).announce(Running(url="https://localhost:1", pid=1, database_url="sqlite://", cloud_file=None))
    file.write_text(CLOUDS.format(trust="verify: false", port=1))
    with pytest.raises(Unavailable, match=f"Start it with: whimbrel up --data-dir {tmp_path}"):
        Api(Login(file, "one")).log_in()


@pytest.mark.parametrize(
    ("trust", "error", "said"),
    [
        ("cacert: {ca}", Refused, "401"),
        ("verify: false", Refused, "401"),
        ("verify: true", Unavailable, "certificate"),
        ("cacert: /nowhere/ca.crt", Invalid, "nowhere"),
    ],
)
def test_a_certificate_is_verified(pki: Path, tmp_path: Path, trust: str, error: type[Exception], said: str) -> None:
    file = tmp_path / "clouds.yaml"
    with serving(pki / "api.crt", pki / "api.key") as port:
        file.write_text(CLOUDS.format(trust=trust.format(ca=pki / "ca.crt"), port=port))
        with pytest.raises(error, match=said):
            Api(Login(file, "one")).log_in()
