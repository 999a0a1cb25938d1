"""Which settings file a process reads, and what it says of services, the bus, certificates and secrets."""

from pathlib import Path

import pytest

from tests.unit.settings.test_settings import GOOD
from whimbrel import settings
from whimbrel.domain.errors import Invalid
from whimbrel.settings import files_of_settings, transport
from whimbrel.settings.files_of_settings import CREDENTIALS
from whimbrel.settings.sections import TlsTable

OF_A_ROLE = """
[services]
url = "https://cloud.example.org"
image = "https://images.example.org/image"
ca_file = "ca.pem"

[bus]
urls = ["tls://n1.example.org:4222", "nats://127.0.0.1:4222"]
ca_file = "/etc/ca.pem"

[tls]
cert_file = "cert.pem"
key_file = "key.pem"

[database]
url_file = "database-url"

[storage]
network = "10.1.0.0/24"

[volumes]
nbd_address = "10.1.0.7"

[rules]
max_attempts = 7
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(CREDENTIALS, raising=False)
    (tmp_path / "database-url").write_text("postgresql://w:secret@db1,db2/w?target_session_attrs=read-write\n")
    file = tmp_path / settings.NAME
    file.write_text(OF_A_ROLE)
    return file


def test_a_role_needs_no_cells(file: Path, tmp_path: Path) -> None:
    config = settings.load(file, needs_cells=False)
    assert config.cells == ()
    assert config.services.url == "https://cloud.example.org"
    assert config.services.image == "https://images.example.org/image"
    assert config.bus.urls == ("tls://n1.example.org:4222", "nats://127.0.0.1:4222")
    assert config.rules.max_attempts == 7
    assert config.rules_in_file == {"max_attempts"}
    assert settings.load(file).cells == ()  # hosts join at its bus
    without = tmp_path / "without.toml"
    without.write_text('[services]\nurl = "https://cloud.example.org"\n')
    assert settings.load(without, needs_cells=False).cells == ()
    with pytest.raises(Invalid, match="the file has no 'cell'"):
        settings.load(without)


def test_administrators_read_what_systemd_loads_for_its_services(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "credstore"
    store.mkdir()
    (store / "key.pem").write_text("a key")
    (store / "cert.pem").write_text("not this one")
    (tmp_path / "cert.pem").write_text("beside the settings")
    monkeypatch.setattr(files_of_settings, "CREDENTIAL_STORE", store)
    config = settings.load(file, needs_cells=False)
    assert (config.tls.key_file, config.tls.cert_file) == (str(store / "key.pem"), str(tmp_path / "cert.pem"))


def test_files_are_credentials_or_beside_the_settings(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = settings.load(file, needs_cells=False)
    assert config.database.url == "postgresql://w:secret@db1,db2/w?target_session_attrs=read-write"
    assert config.tls.key_file == str(tmp_path / "key.pem")
    assert config.bus.ca_file == "/etc/ca.pem"
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (credentials / "key.pem").write_text("a key")
    (credentials / "database-url").write_text("postgresql://other@db/w")
    monkeypatch.setenv(CREDENTIALS, str(credentials))
    config = settings.load(file, needs_cells=False)
    assert config.database.url == "postgresql://other@db/w"
    assert config.tls.key_file == str(credentials / "key.pem")
    assert config.tls.cert_file == str(tmp_path / "cert.pem")  # it is no credential


def test_an_empty_file_of_the_url_is_refused(file: Path) -> None:
    file.with_name("database-url").write_text(" ")
    with pytest.raises(Invalid, match=r"'url_file' .*database-url is empty: write the URL into it"):
        settings.load(file, needs_cells=False)


def test_a_cell_may_have_only_hosts_that_join(file: Path) -> None:
    file.write_text(OF_A_ROLE + '[[cell]]\nname = "c1"\n')
    [cell] = settings.load(file).cells
    assert (cell.name, cell.hosts) == ("c1", ())


def test_the_given_file_comes_before_that_of_the_directory_and_that_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, data, system = tmp_path / "given.toml", tmp_path / "data", tmp_path / "etc" / settings.NAME
    monkeypatch.setattr(settings, "SYSTEM", system)
    assert settings.find(None, data) is None
    system.parent.mkdir()
    system.write_text(GOOD)
    assert settings.find(None, data) == settings.find(None, None) == system
    data.mkdir()
    (data / settings.NAME).write_text(GOOD)
    assert settings.find(None, data) == data / settings.NAME
    assert settings.find(given, data) == given


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "n1.example.org"])
def test_plain_http_is_served_on_loopback_only(host: str) -> None:
    with pytest.raises(Invalid, match="set 'cert_file' and 'key_file' in \\[tls\\]"):
        transport.check_listener(host, TlsTable())
    transport.check_listener(host, TlsTable(insecure=True))
    transport.check_listener(host, TlsTable(cert_file="c", key_file="k"))
    for own in ("127.0.0.1", "127.9.9.9", "::1", "localhost"):
        transport.check_listener(own, TlsTable())
