"""Wrong passwords: what they cost, when further ones are refused, and that nobody keeps another user out."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.embedded.opened import Opened
from whimbrel.embedded.identity.attempts import OF_ACCOUNT
from whimbrel.embedded.identity.passwords import COST_LOG2, COSTS_LOG2, RANDOM_COST_LOG2, hash_now, matches, work
from whimbrel.http.failed_attempts import OF_ADDRESS

TOKENS = "/identity/v3/auth/tokens"


def from_address(services: Opened, address: str) -> httpx.AsyncClient:
    app = services.client._transport.app  # type: ignore[attr-defined]
    transport = httpx.ASGITransport(app, client=(address, 1))
    return httpx.AsyncClient(transport=transport, base_url="http://cloud")


async def log_in(
    services: Opened, name: str, password: str, address: str = "192.0.2.1", **given: Any
) -> httpx.Response:
    user = {"name": name, "domain": {"id": "default"}, "password": password} | given
    body = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}}
    async with from_address(services, address) as client:
        return await client.post(TOKENS, json=body)


async def statuses(services: Opened, times: int, name: str, password: str, address: str = "192.0.2.1") -> set[int]:
    return {(await log_in(services, name, password, address)).status_code for _ in range(times)}


def test_each_check_derives_the_same_keys() -> None:
    for stored in (hash_now("x", RANDOM_COST_LOG2), hash_now("x", COST_LOG2), None):
        assert work(stored, COSTS_LOG2) == [RANDOM_COST_LOG2, COST_LOG2]


@pytest.mark.parametrize("cost_log2", [4, 10, 12, 14])
async def test_hashes_of_every_cost_are_checked(cost_log2: int) -> None:
    stored = hash_now("right", cost_log2)
    assert await matches("right", stored)
    assert not await matches("wrong", stored)


@pytest.mark.parametrize("name", ["ann", "nobody"])
async def test_wrong_passwords_are_refused_for_a_while_also_for_names_that_nobody_has(
    services: Opened, name: str
) -> None:
    assert await statuses(services, OF_ACCOUNT.burst, name, "wrong") == {401}
    refused = await log_in(services, name, "wrong")
    assert refused.status_code == 429
    assert refused.json()["error"]["title"] == "Too Many Requests"
    assert int(refused.headers["Retry-After"]) == OF_ACCOUNT.one_more_after_s
    services.clock.advance(OF_ACCOUNT.one_more_after_s)
    assert (await log_in(services, name, "wrong")).status_code == 401
    assert (await log_in(services, name, "wrong")).status_code == 429


async def test_the_right_password_is_refused_too_and_accepted_when_time_has_passed(services: Opened) -> None:
    await statuses(services, OF_ACCOUNT.burst, "ann", "wrong")
    assert (await log_in(services, "ann", "secret of ann")).status_code == 429
    services.clock.advance(OF_ACCOUNT.one_more_after_s)
    assert (await log_in(services, "ann", "secret of ann")).status_code == 201
    assert await statuses(services, OF_ACCOUNT.burst, "ann", "wrong") == {401}  # the count began anew


async def test_nobody_keeps_a_user_at_another_address_out(services: Opened) -> None:
    for number in range(50):
        assert await statuses(services, OF_ACCOUNT.burst, "ann", "wrong", f"198.51.100.{number}") == {401}
    assert (await log_in(services, "ann", "secret of ann", "192.0.2.1")).status_code == 201
    assert (await log_in(services, "bob", "secret of bob", "198.51.100.1")).status_code == 201


async def test_a_user_is_the_same_by_name_and_by_id(services: Opened) -> None:
    await statuses(services, OF_ACCOUNT.burst, "ann", "wrong")
    assert (await log_in(services, "", "wrong", id="ann")).status_code == 429
    async with from_address(services, "192.0.2.1") as client:
        body = {"user": {"original_password": "wrong", "password": "new"}}
        assert (await client.post("/identity/v3/users/ann/password", json=body)).status_code == 429


async def test_an_address_tries_many_names_for_a_while_only(services: Opened) -> None:
    for number in range(OF_ADDRESS.burst):
        assert (await log_in(services, f"name {number}", "wrong", f"2001:db8::{number:x}")).status_code == 401
    assert (await log_in(services, "another", "wrong", "2001:db8::ffff:1")).status_code == 429
    assert (await log_in(services, "another", "wrong", "2001:db8:0:1::1")).status_code == 401


async def test_a_right_password_is_not_counted(services: Opened) -> None:
    assert await statuses(services, 2 * OF_ADDRESS.burst, "ann", "secret of ann") == {201}


async def test_attempts_at_once_are_counted_too(services: Opened) -> None:
    answers = await asyncio.gather(*(log_in(services, "ann", "wrong") for _ in range(50)))
    wrong = sum(answer.status_code == 401 for answer in answers)
    assert OF_ACCOUNT.burst <= wrong <= OF_ACCOUNT.burst + 1  # two are checked at once


async def test_one_request_is_one_attempt(services: Opened) -> None:
    user = {"name": "ann", "domain": {"id": "default"}, "password": "secret of ann"}
    body = {"auth": {"identity": {"methods": ["password"] * 1000, "password": {"user": user}}}}
    answer = await services.client.post(TOKENS, json=body)
    assert answer.json()["token"]["methods"] == ["password"]


async def test_changing_the_password_of_nobody_reads_as_a_wrong_password(services: Opened) -> None:
    body = {"user": {"original_password": "wrong", "password": "new"}}
    answers = [await services.ask("", "POST", f"/identity/v3/users/{who}/password", body) for who in ("ann", "nobody")]
    assert [answer.status_code for answer in answers] == [401, 401]
    assert answers[0].json() == answers[1].json()
