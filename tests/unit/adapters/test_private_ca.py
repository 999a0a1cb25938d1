"""The private CA: certificates pass a real TLS handshake by the ssl module, and only as what they were issued for."""

import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from stat import S_IMODE

import msgspec
import pytest

from whimbrel.adapters.private_ca import CA, Issued, PrivateCa, Use
from whimbrel.cli import main
from whimbrel.domain.errors import Invalid, NotFound, Refused, WorldError

NOW = datetime.now(UTC)  # the ssl module compares with the real clock
ISSUERS: dict[str, Callable[[PrivateCa], Issued]] = {
    "first": lambda ca: ca.issue("api", ["api.example.org", "10.0.0.4", "fd00::4"], "server", None, NOW),
    "renewed": lambda ca: expired_and_renewed(ca),
}


@pytest.fixture
def ca(tmp_path: Path) -> PrivateCa:
    made = PrivateCa(tmp_path / "pki")
    made.create("Test CA", 3650, NOW - timedelta(days=100))
    return made


def expired_and_renewed(ca: PrivateCa) -> Issued:
    issue(ca, "api", "api.example.org", "10.0.0.4", "fd00::4", ago=timedelta(days=50), days=20)
    return ca.renew("api", None, NOW)


def issue(
    ca: PrivateCa, name: str, *names: str, use: Use = "server", days: int | None = None, ago: timedelta = timedelta(0)
) -> Issued:
    return ca.issue(name, names, use, days, NOW - ago)


def shake_hands(ca: PrivateCa, server: str, called: str, client: str | None = None, trusts: Path | None = None) -> None:
    """Make a TLS connection in memory, with the strictest checks. Raises: SSLError.

    client: its certificate, which the server then requires. trusts: the client's ca.crt.
    """
    at_server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=ca.directory / "ca.crt")
    at_server.load_cert_chain(ca.directory / f"{server}.crt", ca.directory / f"{server}.key")
    at_client = ssl.create_default_context(cafile=trusts or ca.directory / "ca.crt")
    for context in (at_server, at_client):
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    if client is not None:
        at_server.verify_mode = ssl.CERT_REQUIRED
        at_client.load_cert_chain(ca.directory / f"{client}.crt", ca.directory / f"{client}.key")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        at_client.wrap_bio(to_client, to_server, server_hostname=called),
        at_server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        for end in tuple(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            ends.remove(end)


@pytest.mark.parametrize("called", ["api.example.org", "10.0.0.4", "fd00::4"])
@pytest.mark.parametrize("issued", ISSUERS)
def test_a_server_is_trusted_under_its_names(ca: PrivateCa, issued: str, called: str) -> None:
    ISSUERS[issued](ca)
    shake_hands(ca, "api", called)
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        shake_hands(ca, "api", "other.example.org")


def test_a_server_without_names_has_its_own(ca: PrivateCa) -> None:
    assert issue(ca, "n1.example.org").names == ["n1.example.org"]
    shake_hands(ca, "n1.example.org", "n1.example.org")


def test_another_ca_of_the_same_name_is_not_trusted(ca: PrivateCa, tmp_path: Path) -> None:
    issue(ca, "api")
    PrivateCa(tmp_path / "other").create("Test CA", 3650, NOW)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(ca, "api", "api", trusts=tmp_path / "other/ca.crt")


def test_an_expired_certificate_is_refused(ca: PrivateCa) -> None:
    issue(ca, "api", days=20, ago=timedelta(days=50))
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        shake_hands(ca, "api", "api")


@pytest.mark.parametrize(
    ("use", "serves", "asks"), [("server", True, False), ("client", False, True), ("both", True, True)]
)
def test_a_certificate_is_for_its_use_only(ca: PrivateCa, use: Use, serves: bool, asks: bool) -> None:
    issue(ca, "server", "server")
    issue(ca, "client", use="client")
    issue(ca, "it", "it", use=use)
    for works, server, client in ((serves, "it", "client"), (asks, "server", "it")):
        if works:
            shake_hands(ca, server, server, client)
        else:
            with pytest.raises(ssl.SSLError, match="purpose"):
                shake_hands(ca, server, server, client)


def test_what_was_signed_stays_valid_when_the_ca_is_renewed(ca: PrivateCa, tmp_path: Path) -> None:
    issue(ca, "old")
    old = tmp_path / "old.crt"
    old.write_bytes((ca.directory / "ca.crt").read_bytes())
    ca.renew(CA, 5000, NOW)
    issue(ca, "new", days=4000)
    for server in ("old", "new"):
        for trusts in (old, ca.directory / "ca.crt"):
            shake_hands(ca, server, server, trusts=trusts)


def test_keys_are_for_their_owner_only(ca: PrivateCa) -> None:
    issue(ca, "api")
    modes = {path.name: S_IMODE(path.stat().st_mode) for path in ca.directory.iterdir()}
    assert modes == {"ca.crt": 0o644, "ca.key": 0o600, "api.crt": 0o644, "api.key": 0o600}
    assert S_IMODE(ca.directory.stat().st_mode) == 0o700


def test_nothing_is_overwritten(ca: PrivateCa) -> None:
    issue(ca, "api")
    files = {path: path.read_bytes() for path in ca.directory.iterdir()}
    with pytest.raises(Refused, match="whimbrel pki renew ca"):
        ca.create("Another", 10, NOW)
    with pytest.raises(Refused, match="whimbrel pki renew api"):
        issue(ca, "api", "elsewhere")
    assert {path: path.read_bytes() for path in ca.directory.iterdir()} == files


def test_a_renewal_keeps_the_key_and_needs_only_that_of_the_ca(ca: PrivateCa) -> None:
    issue(ca, "api", "10.0.0.4", use="both", days=30, ago=timedelta(days=20))
    key = ca.directory / "api.key"
    kept = key.rename(ca.directory.parent / "api.key")
    renewed = ca.renew("api", None, NOW)
    assert (renewed.use, renewed.names) == ("both", ["10.0.0.4"])
    assert renewed.expires_at == (NOW + timedelta(days=30)).replace(microsecond=0)
    assert not key.exists()
    kept.rename(key)
    shake_hands(ca, "api", "10.0.0.4")


def test_an_interrupted_call_is_repeated(ca: PrivateCa) -> None:
    issue(ca, "api")
    key = (ca.directory / "api.key").read_bytes()
    (ca.directory / "api.crt").unlink()  # a crash between the two files
    issue(ca, "api")
    assert (ca.directory / "api.key").read_bytes() == key
    shake_hands(ca, "api", "api")


def test_no_second_key_is_made_for_a_ca_whose_key_is_elsewhere(ca: PrivateCa) -> None:
    (ca.directory / "ca.key").unlink()
    with pytest.raises(NotFound, match="put it there"):
        issue(ca, "api")
    assert [path.name for path in ca.directory.iterdir()] == ["ca.crt"]


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda ca: issue(ca, "api", days=3600), Refused, "longer than its CA"),
        (lambda ca: issue(ca, "api", days=0), Invalid, "1 or more"),
        (lambda ca: issue(ca, "api", days=10**12), Invalid, "year before 10000"),
        (lambda ca: issue(ca, "../api"), Invalid, "cannot name"),
        (lambda ca: issue(ca, "ca"), Invalid, "cannot name"),
        (lambda ca: issue(ca, "api", "no name"), Invalid, "neither an IP address nor a DNS name"),
        (lambda ca: ca.renew("api", None, NOW), NotFound, "whimbrel pki list"),
        (lambda ca: issue(PrivateCa(ca.directory / "empty"), "api"), NotFound, "whimbrel pki init"),
        (lambda ca: PrivateCa(ca.directory / "new").create("", 10, NOW), Invalid, "cannot be the name"),
    ],
)
def test_what_cannot_be_is_refused(
    ca: PrivateCa, call: Callable[[PrivateCa], Issued], error: type[WorldError], says: str
) -> None:
    with pytest.raises(error, match=says):
        call(ca)
    assert sorted(path.name for path in ca.directory.glob("*.*")) == ["ca.crt", "ca.key"]


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(("pki", *words, "--dir", str(tmp_path / "pki")))
        assert ended.value.code in (0, None)
        return capsys.readouterr().out

    run("init", "--days", "100")
    assert "for localhost, 127.0.0.1, valid until" in run("issue", "api", "localhost", "127.0.0.1", "--days", "50")
    run("issue", "whimbrel", "--use", "client", "--days", "5")
    run("renew", "whimbrel", "--days", "9")
    listed = msgspec.json.decode(run("list", "--json"))["certificates"]
    assert [(each["name"], each["use"], each["names"]) for each in listed] == [
        ("ca", "ca", []),
        ("api", "server", ["localhost", "127.0.0.1"]),
        ("whimbrel", "client", []),
    ]
    lines = run("list").splitlines()
    assert [line.split()[-1] for line in lines[1:]] == ["99", "49", "8"]
    shake_hands(PrivateCa(tmp_path / "pki"), "api", "localhost", "whimbrel")
