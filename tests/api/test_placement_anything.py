"""Whatever is sent, the Placement API answers, and never with an error of its own; afterwards the accounts agree."""

from typing import Any

import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.anything import Anything
from tests.api.placement_client import placement
from tests.depth import examples
from whimbrel.adapters.sql.tables.placement import allocations, inventories
from whimbrel.placement_api.microversions import LAST
from whimbrel.placement_api.routes import ROUTES

UUIDS = [f"11111111-0000-4000-8000-00000000000{number}" for number in range(2)]
ANYTHING = Anything(*UUIDS, "VCPU", "CUSTOM_A", "HW_CPU_X86_AVX2", "uuid", "allocations", "total")

AMOUNTS: dict[str, Any] = {"total": 8, "reserved": 1, "allocation_ratio": 2.0, "max_unit": 4}
GENERATION = {"resource_provider_generation": 1}
CLAIM: dict[str, Any] = {
    "allocations": {UUIDS[0]: {"resources": {"VCPU": 1}}},
    "consumer_generation": None,
    "project_id": "own",
    "user_id": "somebody",
    "consumer_type": "INSTANCE",
}
GOOD: list[Any] = [
    {"name": "host", "uuid": UUIDS[0], "parent_provider_uuid": UUIDS[1]},
    {"inventories": {"VCPU": AMOUNTS}, **GENERATION},
    {"resource_class": "VCPU", **AMOUNTS},
    {**AMOUNTS, **GENERATION},
    {"aggregates": UUIDS, **GENERATION},
    {"traits": ["HW_CPU_X86_AVX2"], **GENERATION},
    {"name": "CUSTOM_A"},
    CLAIM,
    {UUIDS[0]: CLAIM, UUIDS[1]: CLAIM},
    {"allocations": [{"resource_provider": {"uuid": UUIDS[0]}, "resources": {"VCPU": 1}}]},
]


queries = st.lists(
    st.tuples(
        st.sampled_from(
            ["resources", "required", "member_of", "in_tree", "name", "uuid", "limit", "project_id", "associated", "x"]
        ),
        st.sampled_from(
            ["VCPU:1", "VCPU:99", "in:a,b", "!x", "true", "1", "0", "own", "HW_CPU_X86_AVX2", *ANYTHING.every_word]
        ),
    ),
    max_size=3,
)
requests = st.tuples(
    st.sampled_from(ROUTES),
    st.sampled_from([0, 7, 11, 12, 27, 28, 38, LAST]),
    st.lists(ANYTHING.words.filter(lambda word: "/" not in word), min_size=2, max_size=2),
    queries,
    st.sampled_from(GOOD) | st.sampled_from(GOOD).flatmap(ANYTHING.nearly) | ANYTHING.values,
)


@settings(derandomize=True, max_examples=examples(60), suppress_health_check=list(HealthCheck))
@given(st.lists(requests, min_size=8, max_size=16))
async def test_anything(sent: list[Any]) -> None:
    async with placement() as client:
        await client.done("POST", "/resource_providers", {"name": "one", "uuid": UUIDS[0]})
        await client.done("POST", f"/resource_providers/{UUIDS[0]}/inventories", {"resource_class": "VCPU", "total": 9})
        for route, minor, names, query, body in sent:
            parts = iter(names)
            path = "/".join(next(parts) if part.startswith("{") else part for part in route.path.split("/"))
            answer = await client.ask(
                *(route.method, path.replace("\x00", "%00"), body if route.body else None), at=minor, params=query
            )
            assert answer.status_code < 500, (route, body, answer.text)
        async with client.database.read() as tx:
            claimed = await tx.value(sa.select(sa.func.coalesce(sa.func.sum(allocations.c.amount), 0)))
            assert claimed == await tx.value(sa.select(sa.func.coalesce(sa.func.sum(inventories.c.used), 0)))
