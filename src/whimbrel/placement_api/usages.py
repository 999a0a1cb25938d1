"""What a project, or one user in it, uses."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.placement.provider import Usage
from whimbrel.placement_api.allocations import UNKNOWN_TYPE
from whimbrel.placement_api.call import Call
from whimbrel.placement_api.queries import invalid

ALL = "all"
TYPE = re.compile(r"[A-Z0-9_]+|all|unknown")
LONGEST = 255


async def show(call: Call) -> Any:
    _check(call)
    user = call.value("user_id")
    found = await call.store.usages(ProjectId(call.query["project_id"][0]), UserId(user) if user else None)
    if call.minor < 38:
        return {"usages": dict(_sum(found))}
    wanted = call.value("consumer_type")
    if wanted == ALL:
        return {"usages": {ALL: _typed(found)} if found else {}}
    by_type = {usage.type or UNKNOWN_TYPE: usage for usage in found}
    return {"usages": {name: _typed([usage]) for name, usage in by_type.items() if wanted in (None, name)}}


def _check(call: Call) -> None:
    """Raises: Problem: 400: a value can be no project, user or type."""
    for key, values in call.query.items():
        if not 1 <= len(values[0]) <= LONGEST:
            raise invalid(f"{key} must have 1 to {LONGEST} characters")
    kind = call.value("consumer_type")
    if kind is not None and not TYPE.fullmatch(kind):
        raise invalid(f"{kind!r} does not match {TYPE.pattern!r}")


def _sum(usages: Iterable[Usage]) -> Counter[str]:
    total: Counter[str] = Counter()
    for usage in usages:
        total.update(usage.resources)
    return total


def _typed(usages: list[Usage]) -> dict[str, int]:
    return {**_sum(usages), "consumer_count": sum(usage.consumers for usage in usages)}
