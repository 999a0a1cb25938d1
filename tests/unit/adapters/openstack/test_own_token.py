"""The login of this process: its lifetime, both kinds of credentials, and the endpoints of the catalog."""

import json
from datetime import UTC, datetime

import httpx
import pytest

from whimbrel.adapters.openstack.own_token import CredentialLogin, Login, OwnToken, unversioned
from whimbrel.domain.errors import Unavailable
from whimbrel.sim.world.clock import JumpingClock

PASSWORD = Login(
    auth_url="http://k", username="w", password="p", project_name="service", user_domain={"id": "default"},
    project_domain={"name": "Default"},
)  # fmt: skip
CREDENTIAL = CredentialLogin(auth_url="http://k", id="a1", secret="s1")


def endpoint(interface: str, url: str, region: str = "RegionOne") -> dict[str, str]:
    return {"interface": interface, "url": url, "region": region, "region_id": region}


CATALOG = [
    {"type": "network", "endpoints": [endpoint("public", "http://n:9696/"), endpoint("internal", "http://in:9696")]},
    {"type": "image", "endpoints": [endpoint("public", "http://i:9292/v2")]},
    {"type": "volumev3", "endpoints": [endpoint("public", "http://v:8776/v3/0123abc")]},
    {"type": "placement", "endpoints": [endpoint("public", "http://p/placement", "RegionTwo")]},
]


class Keystone:
    """Issues tokens t1, t2 ... that are valid for an hour."""

    def __init__(self, clock: JumpingClock) -> None:
        self.clock = clock
        self.logins: list[dict[str, object]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.logins.append(json.loads(request.content)["auth"])
        end = datetime.fromtimestamp(self.clock.now() + 3600, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        headers = {"X-Subject-Token": f"t{len(self.logins)}"}
        return httpx.Response(201, headers=headers, json={"token": {"expires_at": end, "catalog": CATALOG}})


def opened(login: Login | CredentialLogin = PASSWORD) -> tuple[OwnToken, Keystone]:
    keystone = Keystone(JumpingClock())
    client = httpx.AsyncClient(transport=httpx.MockTransport(keystone), base_url="http://k")
    return OwnToken(client, lambda: login, keystone.clock), keystone


async def test_a_token_is_renewed_before_it_expires() -> None:
    token, keystone = opened()
    assert [await token.get(), await token.get()] == ["t1", "t1"]
    await keystone.clock.sleep(3200)
    assert await token.get() == "t1"
    await keystone.clock.sleep(200)
    assert await token.get() == "t2"


async def test_both_kinds_of_logins_are_sent_as_keystone_reads_them() -> None:
    token, keystone = opened()
    await token.get()
    assert keystone.logins == [
        {
            "identity": {
                "methods": ["password"],
                "password": {"user": {"name": "w", "password": "p", "domain": {"id": "default"}}},
            },
            "scope": {"project": {"name": "service", "domain": {"name": "Default"}}},
        }
    ]
    token, keystone = opened(CREDENTIAL)
    await token.get()
    assert keystone.logins == [  # it has its own project: with a scope Keystone refuses it
        {
            "identity": {
                "methods": ["application_credential"],
                "application_credential": {"id": "a1", "secret": "s1"},
            }
        }
    ]


@pytest.mark.parametrize(
    ("service", "interfaces", "url"),
    [
        ("network", ("internal", "public"), "http://in:9696"),
        ("network", ("public",), "http://n:9696"),
        ("image", ("internal", "public"), "http://i:9292"),
        ("volume", ("public",), "http://v:8776"),
    ],
)
async def test_endpoints_are_those_of_the_catalog(service: str, interfaces: tuple[str, ...], url: str) -> None:
    token, _ = opened()
    assert await token.endpoint(service, "RegionOne", interfaces) == url


async def test_an_endpoint_that_is_not_there() -> None:
    token, _ = opened()
    with pytest.raises(Unavailable, match="no internal endpoint of the image service in region RegionOne"):
        await token.endpoint("image", "RegionOne", ("internal",))
    with pytest.raises(Unavailable, match="no public endpoint of the placement service in region RegionOne"):
        await token.endpoint("placement", "RegionOne", ("public",))
    assert await token.endpoint("placement", None, ("public",)) == "http://p/placement"


def test_versions_are_no_part_of_a_services_url() -> None:
    assert unversioned("http://h/identity/v3/") == "http://h/identity"
    assert unversioned("http://h:9696/v2.0") == "http://h:9696"
    assert unversioned("http://v3.example.org:5000") == "http://v3.example.org:5000"
