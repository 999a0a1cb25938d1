"""Who may do what: an administrator everything, a project's reader may see what his project uses."""

from collections.abc import Callable, Mapping

from whimbrel.ports.identity import Caller

Rule = Callable[[Caller, Mapping[str, list[str]]], bool]
"""Tells whether a caller may do what a request with this query asks."""

ADMINS = frozenset({"admin", "service"})


def admin(caller: Caller, _query: Mapping[str, list[str]]) -> bool:
    return not caller.roles.isdisjoint(ADMINS)


def own_project(caller: Caller, query: Mapping[str, list[str]]) -> bool:
    """An administrator, or a reader of the project that the query is about."""
    return admin(caller, query) or ("reader" in caller.roles and query.get("project_id") == [caller.project_id])
