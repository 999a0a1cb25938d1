"""The page of Whimbrel's own API, from its table of routes, and the shapes of its answers."""

from collections.abc import Iterable, Iterator
from typing import Any

from tools.document_fields import fields_of
from whimbrel.api.http.call import Route
from whimbrel.api.http.microversions import LAST
from whimbrel.api.http.openapi import views_of
from whimbrel.api.own_routes import OWN_ROUTES
from whimbrel.http.routes import OPEN

HEAD = """\
# Whimbrel's own API

Beside Nova's, below the compute endpoint (`/v2.1/whimbrel`); with the same tokens and errors, at every
microversion. The OpenAPI document of all routes is at `/v2.1/whimbrel/openapi.json`. Fields are only added.

| request | | policy rule | query | answer |
|---|---|---|---|---|
"""
SHAPES = """
## Shapes

A path such as `moves[].id` is a field of each element of a list, `hosts{}.up` of each value of an object. `= ...`
is what is meant where an older cloud sends no such field. Times are seconds since 1970.
"""


def api_extensions() -> str:
    views = {view.__name__: view for route in OWN_ROUTES for view in views_of(route.handler)}
    return f"{HEAD}{''.join(map(_row, OWN_ROUTES))}{SHAPES}{''.join(shapes(views.items()))}"


def _row(route: Route) -> str:
    action = f" `{route.action}`" if route.action else ""
    said = (route.handler.__doc__ or "").strip().partition("\n")[0]
    rule = "none: without a token" if route.rule == OPEN else f"`{route.rule}`"
    query = ", ".join(f"`{key}`" for key in route.query.keys_at(LAST)) if route.reads_query else ""
    answer = ", ".join(f"[{view.__name__}](#{view.__name__.lower()})" for view in views_of(route.handler))
    return f"| `{route.method} {route.path}`{action} | {said} | {rule} | {query} | {answer} |\n"


def shapes(named: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """Yield the section of each class: its sentence, and its fields with their types."""
    for name, kind in sorted(named):
        lines = [f"| `{path}` | `{word}` |\n" for path, word in rows_of(kind)]
        yield f"\n### {name}\n\n| field | type |\n|---|---|\n{''.join(lines)}"


def rows_of(kind: Any) -> Iterator[tuple[str, str]]:
    for path, word in fields_of(kind).items():
        yield path, word.replace("|", "\\|")
