"""Every URL of the Placement API in one table.

A line: method, path; its rule in policy.py, after "placement:"; handler; the first version (below: 404); the body's
schema; the query's keys. Literal segments and parameters alternate: /word/{name}/word/{name}.
"""

from typing import Any

from whimbrel.placement_api import (
    aggregates,
    allocations,
    bodies,
    candidates,
    inventories,
    providers,
    queries,
    reshaper,
    resource_classes,
    traits,
    usages,
)
from whimbrel.placement_api.dispatch import Handler, Route


def _at(path: str, *lines: tuple[str, str, Handler, dict[str, Any]]) -> tuple[Route, ...]:
    return tuple(
        Route(method=method, path=path, rule=f"placement:{rule}", handler=handler, **more)
        for method, rule, handler, more in lines
    )


# fmt: off
ROUTES: tuple[Route, ...] = (
    *_at("/resource_classes",
        ("GET", "resource_classes:list", resource_classes.index, {"since": 2}),
        ("POST", "resource_classes:create", resource_classes.create, {"since": 2, "body": bodies.RESOURCE_CLASS})),
    *_at("/resource_classes/{name}",
        ("GET", "resource_classes:show", resource_classes.show, {"since": 2}),
        ("PUT", "resource_classes:update", resource_classes.rename,
            {"since": 2, "until": 6, "body": bodies.RESOURCE_CLASS}),
        ("PUT", "resource_classes:update", resource_classes.put, {"since": 7}),
        ("DELETE", "resource_classes:delete", resource_classes.delete, {"since": 2})),
    *_at("/resource_providers",
        ("GET", "resource_providers:list", providers.index, {"keys": queries.PROVIDERS}),
        ("POST", "resource_providers:create", providers.create, {"body": bodies.NEW_PROVIDER})),
    *_at("/resource_providers/{uuid}",
        ("GET", "resource_providers:show", providers.show, {}),
        ("DELETE", "resource_providers:delete", providers.delete, {}),
        ("PUT", "resource_providers:update", providers.update, {"body": bodies.PROVIDER, "needs_provider": True})),
    *_at("/resource_providers/{uuid}/inventories",
        ("GET", "resource_providers:inventories:list", inventories.index, {}),
        ("POST", "resource_providers:inventories:create", inventories.create,
            {"body": bodies.NEW_INVENTORY, "needs_provider": True}),
        ("PUT", "resource_providers:inventories:update", inventories.replace,
            {"body": bodies.INVENTORIES, "needs_provider": True}),
        ("DELETE", "resource_providers:inventories:delete", inventories.clear, {"since": 5, "below": 405})),
    *_at("/resource_providers/{uuid}/inventories/{name}",
        ("GET", "resource_providers:inventories:show", inventories.show, {}),
        ("PUT", "resource_providers:inventories:update", inventories.update,
            {"body": bodies.INVENTORY, "needs_provider": True}),
        ("DELETE", "resource_providers:inventories:delete", inventories.delete, {})),
    *_at("/resource_providers/{uuid}/usages",
        ("GET", "resource_providers:usages", providers.usages, {})),
    *_at("/resource_providers/{uuid}/aggregates",
        ("GET", "resource_providers:aggregates:list", aggregates.show, {"since": 1}),
        ("PUT", "resource_providers:aggregates:update", aggregates.replace,
            {"since": 1, "body": bodies.AGGREGATES, "needs_provider": True})),
    *_at("/resource_providers/{uuid}/traits",
        ("GET", "resource_providers:traits:list", traits.show_provider, {"since": 6}),
        ("PUT", "resource_providers:traits:update", traits.replace_provider, {"since": 6, "body": bodies.TRAITS}),
        ("DELETE", "resource_providers:traits:delete", traits.clear_provider, {"since": 6})),
    *_at("/resource_providers/{uuid}/allocations",
        ("GET", "resource_providers:allocations:list", allocations.of_provider, {})),
    *_at("/allocations",
        ("POST", "allocations:manage", allocations.post, {"since": 13, "body": bodies.MANY_ALLOCATIONS})),
    *_at("/allocations/{consumer}",
        ("GET", "allocations:list", allocations.show, {}),
        ("PUT", "allocations:update", allocations.put, {"body": bodies.ALLOCATIONS}),
        ("DELETE", "allocations:delete", allocations.delete, {})),
    *_at("/allocation_candidates",
        ("GET", "allocation_candidates:list", candidates.index, {"since": 10, "keys": queries.CANDIDATES})),
    *_at("/traits",
        ("GET", "traits:list", traits.index, {"since": 6, "keys": queries.TRAITS})),
    *_at("/traits/{name}",
        ("GET", "traits:show", traits.show, {"since": 6, "shows_body": False}),
        ("PUT", "traits:update", traits.put, {"since": 6}),
        ("DELETE", "traits:delete", traits.delete, {"since": 6})),
    *_at("/reshaper",
        ("POST", "reshaper:reshape", reshaper.reshape, {"since": 30, "body": bodies.RESHAPE})),
    *_at("/usages",
        ("GET", "usages", usages.show, {"since": 9, "keys": queries.USAGES})),
)
# fmt: on
