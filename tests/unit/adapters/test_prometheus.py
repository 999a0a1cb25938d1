"""Requests and calls are counted whatever becomes of them, and what strangers ask for makes no new labels."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp, Receive, Scope, Send

from whimbrel.adapters.prometheus.app import Counted
from whimbrel.adapters.prometheus.process_metrics import Figures
from whimbrel.adapters.prometheus.timed_store import timed
from whimbrel.bootstrap.http_server import front
from whimbrel.bootstrap.metrics import Watch
from whimbrel.domain.errors import Refused
from whimbrel.ports.meter import Meter, note_route
from whimbrel.sim.cloud.cloud import World


def counted(registry: CollectorRegistry, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    return {
        tuple(sample.labels[label] for label in labels): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name
    }


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer as a service does, with the number in its path."""
    note_route({**scope}, "/things/{id}")  # doors copy their scopes
    if scope["path"].endswith("/bug"):
        raise RuntimeError("a bug")
    status = int(scope["path"].rsplit("/", 1)[1])
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def ask(app: ASGIApp, *paths: str, method: str = "GET") -> None:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://cloud") as client:
        for path in paths:
            await client.request(method, path)


REQUESTS = ("whimbrel_http_requests_total", "service", "method", "route", "code")


async def test_requests_are_counted_by_route_and_code() -> None:
    figures = Figures()
    app = Counted(front({"compute": answer}), figures, frozenset({"compute"}))
    await ask(app, "/compute/things/200", "/compute/other/200", "/compute/things/404", "/compute/bug")
    await ask(app, "/compute/things/200", method="BREW")
    await ask(app, "/secret/of/somebody", "/")
    assert counted(figures.registry, *REQUESTS) == {
        ("compute", "GET", "/things/{id}", "200"): 2,
        ("compute", "GET", "/things/{id}", "404"): 1,
        ("compute", "GET", "/things/{id}", "500"): 1,
        ("compute", "none", "/things/{id}", "200"): 1,
        ("none", "GET", "none", "404"): 1,
        ("none", "GET", "none", "200"): 1,
    }
    seconds = counted(figures.registry, "whimbrel_http_request_duration_seconds_count", "service", "method", "route")
    assert seconds["compute", "GET", "/things/{id}"] == 4


async def test_the_app_beside_one_service_takes_its_own_path_only() -> None:
    watch = Watch()
    app = watch.beside(watch.count_one(answer, "placement"), secret=None)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://cloud") as client:
        assert (await client.get("/metrics/204")).status_code == 204
        told = await client.get("/metrics")
    assert 'service="placement"' in told.text
    assert told.text.count("whimbrel_http_requests_total{") == 1


@pytest.mark.parametrize(
    ("secret", "given", "status"),
    [
        ("s", None, 401),
        ("s", "Bearer t", 401),
        ("s", "Basic s", 401),
        ("s", "Bearer ", 401),
        ("s", "Bearer s", 200),
        ("", "Bearer ", 401),
        ("", None, 401),
        (None, None, 200),
        (None, "Bearer t", 200),
    ],
)
async def test_figures_are_for_those_who_know_the_secret(secret: str | None, given: str | None, status: int) -> None:
    transport = httpx.ASGITransport(Watch().endpoint(secret))
    headers = {} if given is None else {"Authorization": given}
    async with httpx.AsyncClient(transport=transport, base_url="http://cloud") as client:
        answer = await client.get("/metrics", headers=headers)
        assert answer.status_code == status
        assert ("whimbrel_" in answer.text) == (status == 200)
        if status == 401:
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            assert (await client.post("/metrics", headers=headers)).status_code == 401


async def test_choices_are_shown_before_the_first_is_made_so_that_its_refusal_is_seen_to_rise() -> None:
    watch, world = Watch(), await World.build()
    watch.work(world.cloud, world.engine("c1"))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(watch.endpoint(secret=None)), base_url="http://cloud"
    ) as client:
        told = (await client.get("/metrics")).text
    await world.close()
    for kind in ("create", "migrate", "resize"):
        for outcome in ("done", "refused"):
            at = f'{{kind="{kind}",outcome="{outcome}",step="choose_target",way="do"}}'
            assert f"whimbrel_steps_total{at} 0.0" in told


class Store:
    """A store of which some calls fail."""

    words = "plain"

    async def claim(self, amount: int, *, of: str) -> str:
        return f"{amount} of {of}"

    async def release(self) -> None:
        raise Refused("no")

    def known(self) -> int:
        return 7


async def test_a_timed_store_is_the_same_store() -> None:
    figures, meter = Figures(), Meter()
    meter.listen(figures)
    store: Any = timed(Store(), meter)  # type: ignore[arg-type]
    assert await store.claim(3, of="x") == "3 of x"
    assert await store.claim(4, of="y") == "4 of y"
    with pytest.raises(Refused):
        await store.release()
    assert (store.known(), store.words) == (7, "plain")
    name = "whimbrel_placement_call_duration_seconds_count"
    assert counted(figures.registry, name, "call") == {("claim",): 2, ("release",): 1}


@pytest.mark.parametrize(
    "tell",
    [
        lambda meter: meter.decided(1.0, True),
        lambda meter: meter.asked_placement("claim", 1.0),
    ],
)
def test_who_listens_later_hears_nothing_of_before(tell: Callable[[Meter], None]) -> None:
    figures, meter = Figures(), Meter()
    tell(meter)
    meter.listen(figures)
    counts = [one for family in figures.registry.collect() for one in family.samples if one.name.endswith("_count")]
    assert all(one.value == 0 for one in counts)
