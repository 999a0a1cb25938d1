"""The metadata service, as Neutron's metadata agent asks it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from tests.api.front import Front, opened
from whimbrel.api.metadata_service import metadata_app, signature_of
from whimbrel.domain.guest_settings import GuestRules
from whimbrel.domain.ids import ServerId
from whimbrel.hosts.guest_metadata import GuestMetadata
from whimbrel.ports.cloud import Rules
from whimbrel.servers import lookup
from whimbrel.sim.cloud.cloud import PROJECT

SECRET = b"shared with the agent"
LATEST = "/openstack/latest/meta_data.json"


@asynccontextmanager
async def agent(front: Front) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(metadata_app(front.world.cloud, SECRET))
    async with httpx.AsyncClient(transport=transport, base_url="http://metadata:8775") as client:
        yield client


def headers(server_id: str, project: str = PROJECT, secret: bytes = SECRET) -> dict[str, str]:
    return {
        "X-Instance-ID": server_id,
        "X-Instance-ID-Signature": signature_of(server_id, secret),
        "X-Tenant-ID": project,
        "X-Forwarded-For": "10.0.0.5",
    }


async def test_a_guest_is_told_through_the_agent(front: Front) -> None:
    server_id = await front.boot(metadata={"role": "web"}, user_data="aGVsbG8=")
    async with agent(front) as client:
        told = await client.get(LATEST, headers=headers(server_id))
        assert (told.status_code, told.headers["content-type"]) == (200, "application/json; charset=UTF-8")
        assert (told.json()["uuid"], told.json()["meta"]) == (server_id, {"role": "web"})
        listed = await client.get("/openstack/", headers=headers(server_id))
        assert listed.text.split()[-1] == "latest"
        assert listed.headers["content-type"] == "text/plain; charset=UTF-8"
        assert (await client.get("/latest/user-data", headers=headers(server_id))).text == "hello"
        assert (await client.head(LATEST, headers=headers(server_id))).status_code == 200
        assert (await client.get("/openstack/latest/none", headers=headers(server_id))).status_code == 404
        body = {"metadata": {"role": "db"}}
        assert (await front.ask("PUT", f"/servers/{server_id}/metadata", body)).status_code == 200
        assert json.loads((await client.get(LATEST, headers=headers(server_id))).text)["meta"] == {"role": "db"}


async def test_the_versions_need_no_headers(front: Front) -> None:
    async with agent(front) as client:
        assert (await client.get("/")).text.split()[-1] == "latest"


@pytest.mark.parametrize("missing", ["X-Instance-ID", "X-Instance-ID-Signature", "X-Tenant-ID"])
async def test_every_header_is_needed(front: Front, missing: str) -> None:
    sent = headers(await front.boot())
    del sent[missing]
    async with agent(front) as client:
        answer = await client.get(LATEST, headers=sent)
        assert (answer.status_code, f"{missing} header is missing" in answer.text) == (400, True)


async def test_a_wrong_signature_or_project_is_refused(front: Front) -> None:
    server_id = await front.boot()
    async with agent(front) as client:
        wrong = await client.get(LATEST, headers=headers(server_id, secret=b"guessed"))
        assert (wrong.status_code, "Invalid proxy request signature." in wrong.text) == (403, True)
        assert (await client.get(LATEST, headers=headers(server_id, "another"))).status_code == 404
        unknown = "99999999-9999-4999-8999-999999999999"
        assert (await client.get(LATEST, headers=headers(unknown))).status_code == 404


async def test_a_guest_posts_its_password(front: Front) -> None:
    server_id = await front.boot()
    path = "/openstack/2013-04-04/password"
    async with agent(front) as client:
        assert (await client.post(path, content=b"abc", headers=headers(server_id))).status_code == 200
        assert (await client.get(path, headers=headers(server_id))).text == "abc"
        assert (await client.post(path, content=b"abc", headers=headers(server_id))).status_code == 409
        assert (await client.post(path, content=b"x" * (1 << 17), headers=headers(server_id))).status_code == 413


async def test_a_guest_that_asks_too_often_is_told_when_to_come_back() -> None:
    rules = Rules(guests=GuestRules(metadata_requests_per_s=0.1, metadata_burst=2))
    async with opened(rules=rules) as front:
        busy, other = await front.boot(), await front.boot(name="two")
        async with agent(front) as client:
            told = [await client.get(LATEST, headers=headers(busy)) for _ in range(3)]
            assert [each.status_code for each in told] == [200, 200, 429]
            assert told[-1].headers["retry-after"] == "10"
            assert (await client.get(LATEST, headers=headers(other))).status_code == 200
            await front.world.cloud.clock.sleep(10)
            assert (await client.get(LATEST, headers=headers(busy))).status_code == 200
        guests = GuestMetadata(front.world.cloud)
        home = (await lookup.find(front.world.cloud, ServerId(busy))).host
        assert home
        answers = [await guests.of_guest(home, ServerId(busy), LATEST) for _ in range(3)]
        assert [(each.status, each.retry_after_s) for each in answers] == [(200, 0), (200, 0), (429, 10)]


async def test_the_limit_can_be_switched_off() -> None:
    async with opened(rules=Rules(guests=GuestRules(metadata_requests_per_s=0, metadata_burst=1))) as front:
        server_id = await front.boot()
        async with agent(front) as client:
            for _ in range(3):
                assert (await client.get(LATEST, headers=headers(server_id))).status_code == 200
