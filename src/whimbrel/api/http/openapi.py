"""The OpenAPI document of the newest microversion, generated from the table of routes and the schemas."""

import re
from collections.abc import Iterable
from functools import cache
from typing import Any, get_args, get_type_hints

import msgspec

from whimbrel.api.http.call import Handler, Route
from whimbrel.api.http.microversions import LAST
from whimbrel.api.http.problems import NAME_OF_STATUS
from whimbrel.http.reply import Reply
from whimbrel.http.routes import OPEN

VERSION_HEADER = {
    "name": "OpenStack-API-Version",
    "in": "header",
    "required": True,
    "schema": {"const": f"compute 2.{LAST}"},
}

COMPONENT = "#/components/schemas/{name}"

FAULT = {
    "type": "object",
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": {
        "type": "object",
        "properties": {"code": {"type": "integer"}, "message": {"type": "string"}},
        "required": ["code", "message"],
    },
}

ERRORS = {
    400: "The request is wrong.",
    401: "There is no valid token.",
    403: "The caller may not, or his quota does not allow it.",
    404: "It is not there.",
    409: "Not in this state, or somebody was faster.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    429: "Too many attempts failed.",
    503: "Something that is needed does not answer.",
}


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """Return the document for the routes among these that are served at the newest version."""
    routes = [route for route in routes if route.serves(LAST) and route.refuses is None]
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        _add(paths.setdefault(route.path, {}), route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Whimbrel compute API", "version": f"2.{LAST}"},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}},
            "schemas": {"Fault": FAULT, **_components(routes)},
            "responses": _faults(),
        },
    }


@cache
def _faults() -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
    return {NAME_OF_STATUS[code]: {"description": text, "content": content} for code, text in ERRORS.items()}


def _add(methods: dict[str, Any], route: Route) -> None:
    """Add a route; actions of one URL become one operation with a choice of bodies."""
    known = methods.get(route.method.lower())
    if known is None:
        methods[route.method.lower()] = _operation(route)
        return
    known["requestBody"]["content"]["application/json"]["schema"]["oneOf"].append(_body(route))
    answer = known["responses"].setdefault(str(route.ok), _ok(route))
    for schema in _schemas(route):
        if schema not in (choices := answer["content"]["application/json"]["schema"]["anyOf"]):
            choices.append(schema)


def _operation(route: Route) -> dict[str, Any]:
    doc = (route.handler.__doc__ or "").split("\n")[0]
    name = re.sub(r"[^a-zA-Z0-9]+", "_", f"{route.method.lower()} {route.path}").strip("_")
    operation: dict[str, Any] = {
        "operationId": name,
        "parameters": [VERSION_HEADER, *_path(route), *_query(route)],
        "responses": {str(code): _ok(route) for code in (route.ok, route.ok_too) if code}
        | {str(code): {"$ref": f"#/components/responses/{NAME_OF_STATUS[code]}"} for code in ERRORS},
    }
    if doc:
        operation["summary"] = doc
    if route.rule == OPEN:
        operation["security"] = []
    if route.action is not None or route.body is not None:
        schema = {"oneOf": [_body(route)]} if route.action is not None else _body(route)
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return operation


def _ok(route: Route) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": "Done, or accepted."}
    if schemas := _schemas(route):
        answer["content"] = {"application/json": {"schema": {"anyOf": schemas}}}
    return answer


def _schemas(route: Route) -> list[dict[str, str]]:
    return [{"$ref": COMPONENT.format(name=view.__name__)} for view in views_of(route.handler)]


def _components(routes: Iterable[Route]) -> dict[str, Any]:
    """Return the schemas of all views that routes return, and of the classes in these, by name."""
    views = {view.__name__: view for route in routes for view in views_of(route.handler)}
    return msgspec.json.schema_components(views.values(), ref_template=COMPONENT)[1]


def views_of(handler: Handler) -> list[type[msgspec.Struct]]:
    """Return the views in a handler's return type; empty: it returns a dict, or no body."""
    answer = get_type_hints(handler)["return"]
    types = [each for each in get_args(answer) or [answer] if isinstance(each, type)]
    return [each for each in types if issubclass(each, msgspec.Struct) and each is not Reply]


def _body(route: Route) -> Any:
    schema = route.body.at(LAST) if route.body else None
    if schema is not None:
        return schema
    if route.action is None:
        return {}
    return {"type": "object", "required": [route.action], "properties": {route.action: {}}, "maxProperties": 1}


def _path(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"{(\w+)}", route.path)
    ]


def _query(route: Route) -> list[dict[str, Any]]:
    if not route.reads_query:
        return []
    return [
        {"name": name, "in": "query", "style": "form", "explode": True, "schema": schema}
        for name, schema in route.query.keys_at(LAST).items()
    ]
