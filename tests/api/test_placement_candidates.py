"""GET /allocation_candidates with groups, trees and shared providers: what 1.25 to 1.39 brought."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.api.placement_client import Client, application
from whimbrel.placement import candidates
from whimbrel.placement_api.microversions import LAST

EAST, WEST = "e0000000-0000-4000-8000-000000000000", "e1111111-0000-4000-8000-000000000000"
SHARING = "MISC_SHARES_VIA_AGGREGATE"
PATH = "/allocation_candidates"


def uuid(name: str) -> str:
    return f"{name.encode().hex():0<8}-0000-4000-8000-000000000000"


async def make(
    client: Client,
    name: str,
    room: Mapping[str, int],
    parent: str | None = None,
    traits: Iterable[str] = (),
    aggregates: Iterable[str] = (),
) -> None:
    """Make a provider."""
    body = {"name": name, "uuid": uuid(name), "parent_provider_uuid": uuid(parent) if parent else None}
    await client.done("POST", "/resource_providers", body)
    here = f"/resource_providers/{uuid(name)}"
    for trait in traits:
        await client.done("PUT", f"/traits/{trait}") if trait.startswith("CUSTOM_") else None
    inventories = {each: {"total": total} for each, total in room.items()}
    await client.done("PUT", f"{here}/inventories", {"resource_provider_generation": 0, "inventories": inventories})
    having = {"resource_provider_generation": 1, "traits": list(traits)}
    generation = (await client.done("PUT", f"{here}/traits", having)).json()["resource_provider_generation"]
    aggregate = {"resource_provider_generation": generation, "aggregates": list(aggregates)}
    await client.done("PUT", f"{here}/aggregates", aggregate)


async def make_host(client: Client, name: str = "h", **more: Any) -> None:
    """Make a host with two NUMA nodes, and a card below each."""
    await make(client, name, {"DISK_GB": 100}, traits=["COMPUTE_NODE"], **more)
    for number in "01":
        node = {"VCPU": 4, "MEMORY_MB": 1024}
        await make(client, f"{name}n{number}", node, name, ["HW_NUMA_ROOT"])
        await make(client, f"{name}c{number}", {"SRIOV_NET_VF": 2}, f"{name}n{number}", [f"CUSTOM_NET{number}"])


NAMES = [f"{host}{part}" for host in "hi" for part in ("", "n0", "n1", "c0", "c1")] + ["disk"]


async def ways(client: Client, at: int = 39, **query: Any) -> list[dict[str, str]]:
    """Ask, and return for each candidate who serves which group, by names."""
    of = {uuid(name): name for name in NAMES}
    found = await client.get(PATH, params=query, at=at)
    given = [
        {group: [of[each] for each in uuids] for group, uuids in way["mappings"].items()} for way in found[REQUESTS]
    ]
    return sorted(({group: "+".join(sorted(names)) for group, names in sorted(way.items())} for way in given), key=str)


REQUESTS = "allocation_requests"


async def test_groups_are_each_served_by_one_provider(client: Client) -> None:
    await make_host(client)
    want = {"resources_N": "VCPU:1,MEMORY_MB:10", "resources_C": "SRIOV_NET_VF:1", "group_policy": "none"}
    every = [{"_C": f"hc{card}", "_N": f"hn{node}"} for card in "01" for node in "01"]
    assert await ways(client, **want) == every
    assert await ways(client, **want, same_subtree="_N,_C") == [every[0], every[3]]
    assert await ways(client, **want, required_C="CUSTOM_NET1") == [every[2], every[3]]
    assert await ways(client, **want, required_C="in:CUSTOM_NET1,COMPUTE_NODE") == [every[2], every[3]]
    assert await ways(client, **want, required_C="!CUSTOM_NET1") == [every[0], every[1]]
    assert await ways(client, resources_N="VCPU:1,SRIOV_NET_VF:1") == []


async def test_isolated_groups_have_different_providers(client: Client) -> None:
    await make_host(client)
    want = {"resources1": "SRIOV_NET_VF:1", "resources2": "SRIOV_NET_VF:1"}
    assert len(await ways(client, **want, group_policy="none")) == 4
    found = await client.get(PATH, params={**want, "group_policy": "isolate"}, at=25)
    assert found[REQUESTS] == []  # before 1.29 a tree gives from one provider only
    apart = await client.get(PATH, params={**want, "group_policy": "isolate"}, at=29)
    assert [len(way["allocations"]) for way in apart[REQUESTS]] == [2, 2]
    # what is taken of one provider adds up
    assert len(await ways(client, resources1="SRIOV_NET_VF:2", resources2="SRIOV_NET_VF:1", group_policy="none")) == 2


async def test_a_group_without_resources_says_what_is_above(client: Client) -> None:
    await make_host(client)
    want = {"resources_C": "SRIOV_NET_VF:1", "required_N": "HW_NUMA_ROOT", "group_policy": "none"}
    assert await ways(client, **want, same_subtree="_N,_C") == [{"_C": "hc0", "_N": "hn0"}, {"_C": "hc1", "_N": "hn1"}]
    found = await client.get(PATH, params={**want, "same_subtree": "_N,_C"})
    assert all(list(way["allocations"]) == way["mappings"]["_C"] for way in found[REQUESTS])
    assert len(found["provider_summaries"]) == 5
    await client.refused(400, "GET", PATH, params=want)


async def test_one_tree_or_trees_of_some_root(client: Client) -> None:
    await make_host(client)
    await make_host(client, "i", aggregates=[EAST])
    assert [way[""] for way in await ways(client, resources="DISK_GB:1")] == ["h", "i"]
    assert [way[""] for way in await ways(client, resources="DISK_GB:1", in_tree=uuid("in0"))] == ["i"]
    assert [way["1"] for way in await ways(client, resources1="VCPU:1", in_tree1=uuid("h"))] == ["hn0", "hn1"]
    assert await ways(client, resources="DISK_GB:1", in_tree=uuid("none")) == []
    assert len(await ways(client, resources="DISK_GB:1", root_required="COMPUTE_NODE")) == 2
    assert await ways(client, resources="DISK_GB:1", root_required="!COMPUTE_NODE") == []
    # the root's aggregate is that of the tree, but a named group asks its provider itself
    assert [way[""] for way in await ways(client, resources="VCPU:1", member_of=EAST)] == ["in0", "in1"]
    assert [way[""] for way in await ways(client, resources="VCPU:1", member_of=f"!{EAST}")] == ["hn0", "hn1"]
    assert await ways(client, resources1="VCPU:1", member_of1=EAST) == []
    assert len(await ways(client, resources1="VCPU:1", member_of1=f"!{EAST}")) == 4


async def test_shared_providers_give_to_their_aggregate(client: Client) -> None:
    await make(client, "h", {"VCPU": 4}, aggregates=[EAST])
    await make(client, "i", {"VCPU": 4}, aggregates=[WEST])
    await make(client, "disk", {"DISK_GB": 100}, traits=[SHARING], aggregates=[EAST])
    assert await ways(client, resources="VCPU:1,DISK_GB:5") == [{"": "disk+h"}]
    assert await ways(client, resources="VCPU:1", resources1="DISK_GB:5") == [{"": "h", "1": "disk"}]
    assert await ways(client, resources="DISK_GB:5") == [{"": "disk"}]
    old = await client.get(f"{PATH}?resources=VCPU:1,DISK_GB:5", at=12)
    assert old[REQUESTS] == [
        {"allocations": {uuid("h"): {"resources": {"VCPU": 1}}, uuid("disk"): {"resources": {"DISK_GB": 5}}}}
    ]
    assert old["provider_summaries"].keys() == {uuid("h"), uuid("disk")}


async def test_a_limit_is_spread_over_trees(client: Client) -> None:
    await make_host(client)
    await make_host(client, "i")
    found = await ways(client, resources1="VCPU:1", limit=2)
    assert {way["1"][0] for way in found} == {"h", "i"}


async def test_an_explosion_is_answered(client: Client) -> None:
    await make(client, "h", {"VCPU": 4})
    for number in range(16):
        await make(client, f"c{number}", {"SRIOV_NET_VF": 2}, "h")
    want = {f"resources{number}": "SRIOV_NET_VF:1" for number in range(1, 21)}
    found = await client.get(PATH, params={**want, "group_policy": "none", "limit": 10})
    assert len(found[REQUESTS]) == 10
    isolated = await client.get(PATH, params={**want, "group_policy": "isolate", "limit": 10})
    assert isolated[REQUESTS] == []


BAD: list[tuple[int, str, str]] = [
    (39, "resources1=VCPU:1&resources2=VCPU:1", "group_policy"),
    (39, "resources1=VCPU:1&resources2=VCPU:1&group_policy=other", "group_policy"),
    (24, "resources1=VCPU:1", "resources1"),
    (25, "resources0=VCPU:1", "resources0"),
    (32, "resources_A=VCPU:1", "resources_A"),
    (33, f"resources{'a' * 65}=VCPU:1", "does not match any of the regexes"),
    (33, "resources.a=VCPU:1", "'resources.a' does not match any of the regexes"),
    (25, "group_policy=none", "resources"),
    (39, "group_policy=none", "resources"),
    (35, "resources=VCPU:1&required1=HW_NUMA_ROOT", "required1"),
    (36, "resources=VCPU:1&required1=HW_NUMA_ROOT", "'1'"),
    (36, "required=HW_NUMA_ROOT&resources1=VCPU:1", "same_subtree"),
    (36, "required1=HW_NUMA_ROOT&same_subtree=1", "resources"),
    (36, "resources1=VCPU:1&same_subtree=1,2", "'2'"),
    (36, "resources1=VCPU:1&same_subtree=1,", "Empty"),
    (35, "resources1=VCPU:1&same_subtree=1", "same_subtree"),
    (34, "resources=VCPU:1&root_required=HW_NUMA_ROOT", "root_required"),
    (39, "resources=VCPU:1&root_required=in:HW_NUMA_ROOT", "root_required"),
    (39, "resources=VCPU:1&root_required=HW_NUMA_ROOT,!HW_NUMA_ROOT", "HW_NUMA_ROOT"),
    (39, "resources=VCPU:1&root_required=HW_NUMA_ROOT&root_required=HW_NUMA_ROOT", "root_required"),
    (39, "resources=VCPU:1&root_required=NONSENSE", "NONSENSE"),
    (39, "resources1=VCPU:1&required1=HW_NUMA_ROOT,!HW_NUMA_ROOT", "required1"),
    (39, "resources1=VCPU:1&required1=in:HW_NUMA_ROOT&required1=!HW_NUMA_ROOT", "required1"),
    (38, "resources1=VCPU:1&required1=in:HW_NUMA_ROOT", "required"),
    (39, "resources1=NONSENSE:1", "NONSENSE"),
    (39, "resources1=VCPU:1&required1=NONSENSE", "NONSENSE"),
    (39, "resources1=VCPU:1&member_of1=x", "member_of1"),
    (39, "resources1=VCPU:1&in_tree1=x", "in_tree1"),
    (30, "resources=VCPU:1&in_tree=e0000000-0000-4000-8000-000000000000", "in_tree"),
    (31, "resources1=VCPU:1&member_of1=!e0000000-0000-4000-8000-000000000000", "member_of"),
    (39, "resources=VCPU:1&limit=01", "limit"),
]


@pytest.mark.parametrize(("at", "query", "names"), BAD)
async def test_half_said_groups_are_refused(client: Client, at: int, query: str, names: str) -> None:
    error = await client.refused(400, "GET", f"{PATH}?{query}", at=at)
    assert names in error["detail"]


async def test_the_first_policy_holds(client: Client) -> None:
    await make(client, "h", {"VCPU": 4})
    query = "resources1=VCPU:1&resources2=VCPU:1&group_policy=none&group_policy=isolate"
    assert len((await client.get(f"{PATH}?{query}", at=25))[REQUESTS]) == 1


# Many candidates


@asynccontextmanager
async def another(client: Client, most: int | None) -> AsyncIterator[Client]:
    """Open a client of another server on the same database that gives so many candidates at most."""
    transport = httpx.ASGITransport(application(client.database, most_candidates=most))
    async with httpx.AsyncClient(transport=transport, base_url="http://cloud") as http:
        yield Client(http, client.database)


@pytest.mark.parametrize(
    ("most", "limit", "number"), [(None, None, 5), (None, 4, 4), (3, None, 3), (3, 4, 3), (3, 2, 2)]
)
async def test_a_server_has_a_cap(client: Client, most: int | None, limit: int | None, number: int) -> None:
    for name in "abcde":
        await make(client, name, {"VCPU": 4})
    query = "resources=VCPU:1" + (f"&limit={limit}" if limit else "")
    async with another(client, most) as capped:
        for at in (16, 29, LAST):
            answer = await capped.get(f"{PATH}?{query}", at=at)
            assert len(answer["allocation_requests"]) == len(answer["provider_summaries"]) == number


async def test_others_are_answered_while_many_are_found(client: Client) -> None:
    async def turns() -> int:
        """Count how often something else can run until the answer is there."""
        answer = asyncio.create_task(client.get(f"{PATH}?resources=VCPU:1"))
        count = 0
        while not answer.done():
            await asyncio.sleep(0)
            count += 1
        assert len((await answer)["allocation_requests"]) == 5
        return count

    for name in "abcde":
        await make(client, name, {"VCPU": 4})
    await turns()  # the first one loads the index
    at_once = await turns()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "ROUND_ROBIN", 1)
        assert await turns() == at_once + 4
