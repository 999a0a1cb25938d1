"""What `whimbrel placement` makes of its options before anything is started."""

from pathlib import Path

import pytest

from whimbrel.cli.placement import Keystone, Metrics, _login, _read_secret
from whimbrel.domain.errors import Invalid
from whimbrel.settings.datadir import DataDir

GIVEN = {
    "os_auth_url": "http://keystone/identity/v3/",
    "os_username": "placement",
    "os_password": "secret",
    "os_project_name": "service",
}


def test_keystone_is_reached_at_its_root() -> None:
    for url in ("http://keystone/identity", "http://keystone/identity/", GIVEN["os_auth_url"]):
        assert _login(Keystone(**GIVEN | {"os_auth_url": url})).auth_url == "http://keystone/identity"


def test_a_domain_is_named_or_the_default_one() -> None:
    login = _login(Keystone(**GIVEN, os_user_domain_name="Users"))
    assert (login.user_domain, login.project_domain) == ({"name": "Users"}, {"id": "default"})


@pytest.mark.parametrize("missing", GIVEN)
def test_what_is_missing_is_named(missing: str) -> None:
    with pytest.raises(Invalid, match=missing.upper()):
        _login(Keystone(**GIVEN | {missing: ""}))


def test_what_is_no_url_is_named() -> None:
    with pytest.raises(Invalid, match="keystone:5000 is no URL"):
        _login(Keystone(**GIVEN | {"os_auth_url": "keystone:5000"}))


def test_who_is_answered_at_metrics(tmp_path: Path) -> None:
    cloud, keystone = DataDir(tmp_path), _login(Keystone(**GIVEN))
    assert Metrics(open=False, secret="s").secret_for(keystone) == "s"
    assert Metrics(open=False, secret="s").secret_for(cloud) == "s"
    assert Metrics(open=False, secret="").secret_for(cloud) == cloud.metrics_secret()
    assert Metrics(open=False, secret="").secret_for(keystone) == ""
    assert Metrics(open=True, secret="").secret_for(keystone) is None
    assert Metrics(open=False, secret="").secret_for(None) is None  # everybody is believed there


def test_the_secret_of_metrics_is_read_as_prometheus_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(" word\n")
    assert _read_secret(file) == "word"
    assert _read_secret(None) == ""
    file.write_text("\n")
    with pytest.raises(Invalid, match="is empty"):
        _read_secret(file)
    with pytest.raises(Invalid, match="cannot be read"):
        _read_secret(tmp_path / "none")
