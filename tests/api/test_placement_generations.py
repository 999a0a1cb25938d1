"""By how much a write that changes nothing raises the provider's generation, at every microversion.

Source: openstack/placement, objects/resource_provider.py: `_set_traits` returns early; `_set_inventory`,
`_update_inventory` and `_set_aggregates` do not; objects/reshaper.py sets inventories twice.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.api.placement_client import Client
from tests.api.test_placement import HOST, PROVIDER, SERVER, TWO_CPUS, ZONE, make_host
from whimbrel.placement_api.microversions import LAST

CPUS = {"total": 8}
BOTH = {"VCPU": CPUS, "MEMORY_MB": {"total": 1024}}

Body = Callable[[int, int], Any]
"""Makes a body of the minor version and the provider's generation."""


def named(**more: Any) -> Body:
    return lambda _minor, generation: {"resource_provider_generation": generation, **more}


def aggregates(minor: int, generation: int) -> Any:
    return {"aggregates": [ZONE], "resource_provider_generation": generation} if minor >= 19 else [ZONE]


def reshaped(_minor: int, generation: int) -> Any:
    shape = {"resource_provider_generation": generation, "inventories": BOTH}
    return {"inventories": {HOST: shape}, "allocations": {}}


def nothing(_minor: int, _generation: int) -> None:
    return None


# What is written, the first version that has it, and by how much the second time raises the generation, by version.
WRITES: dict[str, tuple[str, str, Body, int, Callable[[int], int]]] = {
    "a name": ("PUT", PROVIDER, lambda _minor, _generation: {"name": "host"}, 0, lambda minor: 0),
    "inventories": ("PUT", f"{PROVIDER}/inventories", named(inventories=BOTH), 0, lambda minor: 1),
    "one inventory": ("PUT", f"{PROVIDER}/inventories/VCPU", named(**CPUS), 0, lambda minor: 1),
    "no inventories": ("DELETE", f"{PROVIDER}/inventories", nothing, 5, lambda minor: 1),
    "traits": ("PUT", f"{PROVIDER}/traits", named(traits=["HW_CPU_X86_AVX2"]), 6, lambda minor: 0),
    "no traits": ("DELETE", f"{PROVIDER}/traits", nothing, 6, lambda minor: 0),
    "aggregates": ("PUT", f"{PROVIDER}/aggregates", aggregates, 1, lambda minor: int(minor >= 19)),
    "a new shape": ("POST", "/reshaper", reshaped, 30, lambda minor: 2),
}


@pytest.mark.parametrize("what", WRITES)
async def test_a_write_that_changes_nothing(client: Client, what: str) -> None:
    method, path, body, since, raised = WRITES[what]
    await make_host(client)
    for minor in range(since, LAST + 1):
        generations = []
        for _ in range(2):
            generation = (await client.get(PROVIDER))["generation"]
            await client.done(method, path, body(minor, generation), at=minor)
            generations.append((await client.get(PROVIDER))["generation"])
        assert generations[1] - generations[0] == raised(minor), minor


async def test_the_answer_names_the_generation_that_stays(client: Client) -> None:
    await make_host(client)
    body = {"traits": ["HW_CPU_X86_AVX2"], "resource_provider_generation": 1}
    first = (await client.done("PUT", f"{PROVIDER}/traits", body)).json()
    again = (await client.done("PUT", f"{PROVIDER}/traits", {**body, **first})).json()
    assert again == first
    await client.refused(409, "PUT", f"{PROVIDER}/traits", body)


async def test_the_same_claim_again(client: Client) -> None:
    await make_host(client)
    who = {"project_id": "own", "user_id": "somebody", "consumer_type": "INSTANCE"}
    for consumer_generation, generation in ((None, 2), (1, 3)):
        claim = {"allocations": TWO_CPUS, "consumer_generation": consumer_generation, **who}
        await client.done("PUT", f"/allocations/{SERVER}", claim)
        assert (await client.get(PROVIDER))["generation"] == generation
