"""What `whimbrel placement` makes of its options before anything is started."""

import pytest

from whimbrel.cli.placement import Keystone, _login
from whimbrel.domain.errors import Invalid

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
