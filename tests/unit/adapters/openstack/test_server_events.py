"""News of ports reaches the compute service: in order, again where it has trouble, and never again where it says no."""

import asyncio
from random import Random
from typing import Any

import httpx
import msgspec
import pytest

from tests.httpx_service import HttpxService
from whimbrel.adapters.openstack.server_events import MOST_AT_ONCE, HttpServerEvents
from whimbrel.domain.errors import Unavailable
from whimbrel.ports.services.server_events import ServerEvent
from whimbrel.sim.world.clock import JumpingClock


def event(number: int) -> ServerEvent:
    return ServerEvent(name="network-vif-plugged", server_id="s", tag=f"port{number}")


class Compute:
    """A compute service that answers these statuses, or fails so, and then 200."""

    def __init__(self, *answers: int | Exception) -> None:
        self.taken: list[Any] = []
        self.asked = 0
        self._answers = list(answers)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        assert (request.method, request.url.path) == ("POST", "/compute/v2.1/os-server-external-events")
        answer = self._answers.pop(0) if self._answers else 200
        if isinstance(answer, Exception):
            raise answer
        if answer == 200:
            self.taken += msgspec.json.decode(request.content)["events"]
        return httpx.Response(answer, json={"events": []})


async def settled(compute: Compute, told: list[list[ServerEvent]]) -> float:
    """Send the events and wait until all are delivered; return how long that took."""
    clock = JumpingClock()
    base_url = "http://cloud/compute/v2.1"
    async with httpx.AsyncClient(transport=httpx.MockTransport(compute), base_url=base_url) as client:
        events = HttpServerEvents(HttpxService(client, "compute"), clock, Random(1))
        begun = clock.now()
        running = asyncio.create_task(events.run())
        for news in told:
            events.tell(news)
            for _ in range(50):
                await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait((running,))
        return clock.now() - begun


async def test_news_arrives_in_order() -> None:
    compute = Compute()
    await settled(compute, [[event(1), event(2)], [], [event(3)]])
    assert compute.taken[0] == {
        "name": "network-vif-plugged", "server_uuid": "s", "status": "completed", "tag": "port1",
    }  # fmt: skip
    assert [each["tag"] for each in compute.taken] == ["port1", "port2", "port3"]
    assert compute.asked == 2


async def test_much_news_goes_in_pieces() -> None:
    compute = Compute()
    await settled(compute, [[event(number) for number in range(MOST_AT_ONCE + 1)]])
    assert (compute.asked, len(compute.taken)) == (2, MOST_AT_ONCE + 1)


@pytest.mark.parametrize("trouble", [500, 503, 401, 429, httpx.ReadError("gone"), Unavailable("no token")])
async def test_trouble_is_asked_again_later(trouble: int | Exception) -> None:
    compute = Compute(trouble, trouble, trouble)
    took_s = await settled(compute, [[event(1)], [event(2)]])
    assert [each["tag"] for each in compute.taken] == ["port1", "port2"]
    assert took_s > 0


@pytest.mark.parametrize("no", [400, 403, 404, 422])
async def test_a_no_is_a_no(no: int) -> None:
    compute = Compute(no)
    await settled(compute, [[event(1)], [event(2)]])
    assert [each["tag"] for each in compute.taken] == ["port2"]
