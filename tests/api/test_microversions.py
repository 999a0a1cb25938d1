"""Bodies and queries at every microversion at which one of them changes: whatever is sent, it is never our bug."""

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from tests.api.front import PROJECT, Front
from whimbrel.api.http.call import Route
from whimbrel.api.http.microversions import LAST
from whimbrel.api.routes import ROUTES

ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    10**30,
    1e300,
    "",
    " ",
    "\x00",
    "é" * 300,
    "-1",
    "None",
    [],
    {},
    [None],
    {"": {}},
)
TRIES = 3


def minors_of(route: Route) -> list[int]:
    """Return the first minor version of each schema that a route has, within its own versions."""
    until = LAST if route.until is None else route.until
    firsts = {max(route.since, 1), until, *(route.body.minors if route.body else ()), *route.query.minors}
    return sorted(minor for minor in firsts if route.serves(minor) and minor > 0)


def value(rng: Random, schema: Mapping[str, Any]) -> Any:
    """Return a value that a schema permits in most of its parts, and an odd one in some."""
    if rng.random() < 0.08:
        return rng.choice(ODD)
    if "enum" in schema or "const" in schema:
        return rng.choice(schema.get("enum") or [schema["const"]])
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return value(rng, {**schema, "anyOf": None, "oneOf": None} | rng.choice(choices))
    kind = schema.get("type", "string")
    kind = rng.choice(kind) if isinstance(kind, list) else kind
    if kind == "object":
        return dict(properties(rng, schema))
    if kind == "array":
        return [value(rng, schema.get("items") or {}) for _ in range(rng.choice((0, 1, 1, 2)))]
    if kind in ("integer", "number"):
        return rng.choice((schema.get("minimum", 0), schema.get("maximum", 7), 1, 2))
    if kind in ("null", "boolean"):
        return None if kind == "null" else rng.random() < 0.5
    return text(rng, schema)


def properties(rng: Random, schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, inner in schema.get("properties", {}).items():
        if name in schema.get("required", ()) or rng.random() < 0.4:
            yield name, value(rng, inner)
    for inner in schema.get("patternProperties", {}).values():
        yield rng.choice(("k", "a b", "é", "x" * 255)), value(rng, inner)
    if rng.random() < 0.03:
        yield "unknown", 1


def text(rng: Random, schema: Mapping[str, Any]) -> str:
    known = {
        "any-uuid": PROJECT,
        "ipv4": "10.0.0.1",
        "ipv6": "::1",
        "iso-time": "2026-01-01T00:00:00Z",
        "base-64": "aGk=",
    }
    plain = rng.choice(("a", "ab", "1", "none", "auto", "x" * 255))
    return known.get(schema.get("format", ""), plain)


async def test_no_body_and_no_query_of_any_version_is_our_bug(front: Front) -> None:
    """Every route, with its own server. The seed is the route: another route changes nothing for the others."""
    names = {"project_id": PROJECT, "flavor_id": "1"}
    for route in ROUTES:
        if "server_id" in route.path:
            await front.settle()
            for server in (await front.get("/servers", who="admin"))["servers"]:
                await front.ask("DELETE", f"/servers/{server['id']}", who="admin")
            await front.settle()
            names["server_id"] = await front.boot(flavorRef="2")
        rng = Random(f"{route.method} {route.path} {route.action}")
        for minor in minors_of(route):
            for turn in range(TRIES):
                body = None
                if route.action or route.body:
                    schema = route.body.at(minor) if route.body else None
                    body = value(rng, schema) if schema else {route.action or "x": rng.choice(ODD)}
                query = {key: text(rng, {}) for key in route.query.keys_at(minor) if rng.random() < 0.3}
                path = "/".join(
                    names.get(part[1:-1], "1") if part.startswith("{") else part for part in route.path.split("/")
                )
                who = "admin" if turn else "member"
                answer = await front.ask(route.method, path, body, who=who, minor=minor, params=query)
                told = (
                    f"{who} {route.method} {path} 2.{minor} {query} {body!r:.2000}: {answer.status_code} {answer.text}"
                )
                assert answer.status_code < 500 or answer.status_code == 501, told
    await front.settle()
