"""Usage of a project, or of one user in it."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.placement.provider import Usage
from whimbrel.placement_api.allocations import UNKNOWN_TYPE
from whimbrel.placement_api.call import Call

ALL = "all"


async def show(call: Call) -> Any:
    user = call.value("user_id")
    found = await call.store.usages(ProjectId(call.value("project_id") or ""), UserId(user) if user else None)
    if call.minor < 38:
        return {"usages": dict(_sum(found))}
    wanted = call.value("consumer_type")
    if wanted == ALL:
        return {"usages": {ALL: _typed(found)} if found else {}}
    by_type = {usage.type or UNKNOWN_TYPE: usage for usage in found}
    return {"usages": {name: _typed([usage]) for name, usage in by_type.items() if wanted in (None, name)}}


def _sum(usages: Iterable[Usage]) -> Counter[str]:
    total: Counter[str] = Counter()
    for usage in usages:
        total.update(usage.resources)
    return total


def _typed(usages: list[Usage]) -> dict[str, int]:
    return {**_sum(usages), "consumer_count": sum(usage.consumers for usage in usages)}
