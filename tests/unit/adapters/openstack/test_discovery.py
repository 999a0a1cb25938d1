"""Checks of services: what is missing is named, with what it is for and what to do."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from whimbrel.adapters.openstack import discovery
from whimbrel.adapters.openstack.administrators_view import OF_ADMINISTRATORS
from whimbrel.adapters.openstack.discovery import NEEDED, WELCOME, Checked
from whimbrel.domain.errors import Unavailable

Check = Callable[[httpx.AsyncClient], AsyncIterator[Checked]]
CINDER = {"versions": [{"id": "v3.0", "version": "3.71"}]}


async def checked(check: Check, answers: dict[str, Any]) -> list[Checked]:
    """answers: path -> body, or status."""

    def answer(request: httpx.Request) -> httpx.Response:
        found = answers.get(request.url.path, 404)
        return httpx.Response(found) if isinstance(found, int) else httpx.Response(200, json=found)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://s") as client:
        return [each async for each in check(client)]


def extensions(names: list[str]) -> dict[str, Any]:
    return {"/v2.0/extensions": {"extensions": [{"alias": name} for name in names]}, OF_ADMINISTRATORS: {"quota": {}}}


async def test_a_neutron_with_everything() -> None:
    found = await checked(discovery.network, extensions([*NEEDED, *WELCOME]))
    assert [each.state for each in found] == ["ok", "ok", "ok"]


async def test_a_neutron_without_multiple_bindings() -> None:
    found = await checked(discovery.network, extensions([name for name in NEEDED if name != "binding-extended"]))
    assert [each.state for each in found] == ["ok", "failed", "warning", "ok"]
    assert "binding-extended (moves: a port has bindings on two hosts meanwhile)" in found[1].text
    assert "ML2" in found[1].advice
    assert "router (floating IPs" in found[2].text


async def test_a_neutron_that_says_no() -> None:
    [found] = await checked(discovery.network, {"/v2.0/extensions": 401})
    assert (found.state, "answers 401" in found.text) == ("failed", True)


@pytest.mark.parametrize("check", [discovery.network, discovery.image, discovery.volume])
async def test_a_service_with_a_problem_of_its_own(check: Check) -> None:
    [found] = await checked(check, dict.fromkeys(("/v2.0/extensions", "/versions", "/"), 503))
    assert (found.state, "answers 503" in found.text, "log of the service" in found.advice) == ("failed", True, True)


@pytest.mark.parametrize(
    ("newest", "state"), [("3.44", "failed"), ("3.67", "failed"), ("3.68", "ok"), ("3.71", "ok"), ("3.100", "ok")]
)
async def test_the_microversion_of_cinder(newest: str, state: str) -> None:
    versions = {"versions": [{"id": "v2.0", "version": ""}, {"id": "v3.0", "version": newest}]}
    answers = {"/": versions, "/v3/attachments": {}, "/v3/os-services": {}}
    found = await checked(discovery.volume, answers)
    assert [each.state for each in found] == [state, "ok", "ok"]
    assert newest in found[0].text


async def test_a_login_that_is_no_administrator_in_neutron() -> None:
    found = await checked(discovery.network, extensions([*NEEDED, *WELCOME]) | {OF_ADMINISTRATORS: 403})
    assert [each.state for each in found] == ["ok", "ok", "failed"]
    assert "Neutron: it sees no ports of other projects" in found[2].text
    assert found[2].advice == "give its user the role 'admin' in its project"


async def test_a_login_that_is_no_administrator_in_cinder() -> None:
    found = await checked(discovery.volume, {"/": CINDER, "/v3/attachments": {}, "/v3/os-services": 403})
    assert [each.state for each in found] == ["ok", "ok", "failed"]
    assert found[2].advice == "give its user the role 'admin' in its project"


async def test_an_endpoint_of_another_service() -> None:
    assert [each.state for each in await checked(discovery.volume, {"/": {"versions": []}})] == ["failed"]
    assert [each.state for each in await checked(discovery.image, {"/versions": CINDER})] == ["failed"]
    with pytest.raises(Unavailable):
        await checked(discovery.image, {"/versions": ["what?"]})


async def test_a_glance() -> None:
    versions = {"versions": [{"id": "v2.9"}, {"id": "v2.17"}, {"id": "v2.2"}]}
    found = await checked(discovery.image, {"/versions": versions, "/v2/images": {"images": []}})
    assert [each.state for each in found] == ["ok", "ok"]
    assert "v2.17" in found[0].text


def test_the_roles_of_the_login() -> None:
    assert discovery.rights(["Admin", "service", "reader"]).state == "ok"
    found = discovery.rights(["admin"])
    assert (found.state, found.advice) == ("failed", "openstack role add --user USER --project PROJECT service")
