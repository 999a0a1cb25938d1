"""Every URL of the Placement API in one table.

A line: method, path, handler; who may; since which version it is there (below: 404); the body's schema; the query's
keys. In a path words and names take turns: /word/{name}/word/{name}.
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
    resource_classes,
    traits,
    usages,
)
from whimbrel.placement_api.access import own_project
from whimbrel.placement_api.dispatch import Handler, Route


def _at(path: str, *lines: tuple[str, Handler, dict[str, Any]]) -> tuple[Route, ...]:
    return tuple(Route(method=method, path=path, handler=handler, **more) for method, handler, more in lines)


# fmt: off
ROUTES: tuple[Route, ...] = (
    *_at("/resource_classes",
        ("GET", resource_classes.index, {"since": 2}),
        ("POST", resource_classes.create, {"since": 2, "body": bodies.RESOURCE_CLASS})),
    *_at("/resource_classes/{name}",
        ("GET", resource_classes.show, {"since": 2}),
        ("PUT", resource_classes.rename, {"since": 2, "until": 6, "body": bodies.RESOURCE_CLASS}),
        ("PUT", resource_classes.put, {"since": 7}),
        ("DELETE", resource_classes.delete, {"since": 2})),
    *_at("/resource_providers",
        ("GET", providers.index, {"keys": queries.PROVIDERS}),
        ("POST", providers.create, {"body": bodies.NEW_PROVIDER})),
    *_at("/resource_providers/{uuid}",
        ("GET", providers.show, {}),
        ("PUT", providers.update, {"body": bodies.PROVIDER}),
        ("DELETE", providers.delete, {})),
    *_at("/resource_providers/{uuid}/inventories",
        ("GET", inventories.index, {}),
        ("POST", inventories.create, {"body": bodies.NEW_INVENTORY}),
        ("PUT", inventories.replace, {"body": bodies.INVENTORIES}),
        ("DELETE", inventories.clear, {"since": 5, "below": 405})),
    *_at("/resource_providers/{uuid}/inventories/{name}",
        ("GET", inventories.show, {}),
        ("PUT", inventories.update, {"body": bodies.INVENTORY}),
        ("DELETE", inventories.delete, {})),
    *_at("/resource_providers/{uuid}/usages",
        ("GET", providers.usages, {})),
    *_at("/resource_providers/{uuid}/aggregates",
        ("GET", aggregates.show, {"since": 1}),
        ("PUT", aggregates.replace, {"since": 1, "body": bodies.AGGREGATES})),
    *_at("/resource_providers/{uuid}/traits",
        ("GET", traits.show_provider, {"since": 6}),
        ("PUT", traits.replace_provider, {"since": 6, "body": bodies.TRAITS}),
        ("DELETE", traits.clear_provider, {"since": 6})),
    *_at("/resource_providers/{uuid}/allocations",
        ("GET", allocations.of_provider, {})),
    *_at("/allocations",
        ("POST", allocations.post, {"since": 13, "body": bodies.MANY_ALLOCATIONS})),
    *_at("/allocations/{consumer}",
        ("GET", allocations.show, {}),
        ("PUT", allocations.put, {"body": bodies.ALLOCATIONS}),
        ("DELETE", allocations.delete, {})),
    *_at("/allocation_candidates",
        ("GET", candidates.index, {"since": 10, "keys": queries.CANDIDATES})),
    *_at("/traits",
        ("GET", traits.index, {"since": 6, "keys": queries.TRAITS})),
    *_at("/traits/{name}",
        ("GET", traits.show, {"since": 6}),
        ("PUT", traits.put, {"since": 6}),
        ("DELETE", traits.delete, {"since": 6})),
    *_at("/usages",
        ("GET", usages.show, {"since": 9, "keys": queries.USAGES, "rule": own_project})),
)
# fmt: on
