"""Grants: only the holder of the secret reads the token, and a changed one is refused."""

import pytest

from whimbrel.adapters.openstack.sealed_grants import SealedGrants
from whimbrel.domain.errors import Refused

TOKEN = "gAAAAA-token-of-a-user"


def test_a_grant_is_opened_by_processes_with_the_same_secret() -> None:
    assert SealedGrants(lambda: "secret").open(SealedGrants(lambda: "secret").seal(TOKEN)) == TOKEN


def test_a_grant_does_not_show_the_token_and_no_two_are_equal() -> None:
    grants = SealedGrants(lambda: "secret")
    first, second = grants.seal(TOKEN), grants.seal(TOKEN)
    assert TOKEN not in first
    assert first != second


@pytest.mark.parametrize("broken", ["", "AAAA", "not base64!", "ü"])
def test_what_is_no_grant_is_refused(broken: str) -> None:
    with pytest.raises(Refused, match="cannot be read"):
        SealedGrants(lambda: "secret").open(broken)


def test_a_grant_ends_with_the_secret() -> None:
    grant = SealedGrants(lambda: "secret").seal(TOKEN)
    with pytest.raises(Refused, match=r"the secret of \[keystone\] has changed"):
        SealedGrants(lambda: "another").open(grant)
