"""What every store of quota limits does: the nearest rule holds."""

from collections.abc import AsyncIterator

import pytest

from tests.contracts.databases import Opener
from whimbrel.adapters.sql.global_.quotas import SqlQuotas
from whimbrel.domain.errors import Conflict
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.ports.stores.catalog import DEFAULT_LIMITS, DEFAULT_QUOTA_CLASS

P, Q, ANN, BOB = ProjectId("p"), ProjectId("q"), UserId("ann"), UserId("bob")


@pytest.fixture
async def quotas(open_store: Opener) -> AsyncIterator[SqlQuotas]:
    async with open_store("global") as db:
        yield SqlQuotas(db)


async def test_the_defaults_hold_where_nobody_said_anything(open_store: Opener) -> None:
    async with open_store("global") as db:
        quotas = SqlQuotas(db)
        assert await quotas.limits(P) == DEFAULT_LIMITS == await quotas.limits(P, ANN)
        assert await quotas.class_limits("any") == DEFAULT_LIMITS
        assert (await SqlQuotas(db, {"cores": 4}).limits(P)) == {"cores": 4}


async def test_user_before_project_before_class(quotas: SqlQuotas) -> None:
    await quotas.set_limits(P, {"cores": 3}, ANN)
    await quotas.set_limits(P, {"cores": 30, "ram": 1000})
    await quotas.set_class_limits(DEFAULT_QUOTA_CLASS, {"cores": 300, "ram": 2000, "instances": -1})
    assert _three(await quotas.limits(P, ANN)) == (3, 1000, -1)
    assert _three(await quotas.limits(P, BOB)) == (30, 1000, -1)
    assert _three(await quotas.limits(P)) == (30, 1000, -1)
    assert _three(await quotas.limits(Q, ANN)) == (300, 2000, -1)
    assert _three(await quotas.class_limits(DEFAULT_QUOTA_CLASS)) == (300, 2000, -1)
    assert _three(await quotas.class_limits("gold")) == (20, 51200, 10)


def _three(limits: dict[str, int]) -> tuple[int, int, int]:
    return limits["cores"], limits["ram"], limits["instances"]


async def test_setting_again_replaces_and_leaves_the_others(quotas: SqlQuotas) -> None:
    await quotas.set_limits(P, {"cores": 1, "ram": 2})
    await quotas.set_limits(P, {"cores": 0})
    await quotas.set_limits(P, {})
    await quotas.set_class_limits("gold", {"cores": 7})
    await quotas.set_class_limits("gold", {"cores": 8})
    assert _three(await quotas.limits(P)) == (0, 2, 10)
    assert (await quotas.class_limits("gold"))["cores"] == 8


async def test_reset_of_a_project_takes_its_users_along(quotas: SqlQuotas) -> None:
    await quotas.set_limits(P, {"cores": 5})
    await quotas.set_limits(P, {"cores": 1}, ANN)
    await quotas.set_limits(P, {"cores": 2}, BOB)
    await quotas.set_limits(Q, {"cores": 6})
    await quotas.reset(P, ANN)
    assert [(await quotas.limits(P, user))["cores"] for user in (ANN, BOB, None)] == [5, 2, 5]
    await quotas.reset(P)
    assert [(await quotas.limits(P, user))["cores"] for user in (ANN, BOB, None)] == [20, 20, 20]
    assert (await quotas.limits(Q))["cores"] == 6


async def test_a_limit_below_minus_one_is_refused_whole(quotas: SqlQuotas) -> None:
    with pytest.raises(Conflict):
        await quotas.set_limits(P, {"cores": 5, "ram": -2})
    assert await quotas.limits(P) == DEFAULT_LIMITS
