"""The views: they import little, each of our own URLs has one, and the OpenAPI document describes all of them."""

import ast
import sys
from pathlib import Path

import msgspec

import whimbrel
from whimbrel.api.http.openapi import document, views_of
from whimbrel.api.own_routes import OWN_ROUTES
from whimbrel.api.views.zones import Zones

SOURCE = Path(whimbrel.__file__).parent
VIEWS = "whimbrel.api.views"


def imported(module: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(module.read_text())))
    plain = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    return plain | {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}


def test_those_that_commands_import_need_msgspec_only() -> None:
    commands = {name for module in (SOURCE / "cli").rglob("*.py") for name in imported(module)}
    used = {name.rpartition(".")[2] for name in commands if name.startswith(f"{VIEWS}.")}
    assert {"moves", "proof", "cells"} <= used
    names = {name for each in used for name in imported(SOURCE / f"api/views/{each}.py")}
    assert {name for name in names if not name.startswith(f"{VIEWS}.")} - sys.stdlib_module_names == {"msgspec"}


def test_each_url_that_answers_has_one() -> None:
    assert [route.path for route in OWN_ROUTES if not views_of(route.handler) and route.ok != 204] == []


def test_the_document_describes_them() -> None:
    components = document(OWN_ROUTES)["components"]["schemas"]
    named = {view.__name__ for route in OWN_ROUTES for view in views_of(route.handler)}
    assert named <= set(components)
    assert all("." not in name for name in components), "two views have the same name"
    assert components["Entry"]["properties"]["from"], "fields have the names that are sent"


def test_actions_of_one_url_may_answer_differently() -> None:
    posted = document(OWN_ROUTES)["paths"]["/whimbrel/restore"]["post"]["responses"]["200"]
    choices = posted["content"]["application/json"]["schema"]["anyOf"]
    assert [choice["$ref"].split("/")[-1] for choice in choices] == ["SurveyAnswer", "EndingAnswer"]


def test_fields_of_a_newer_server_are_ignored_and_those_of_an_older_one_are_missing() -> None:
    newer = {"zones": [{"id": "1", "name": "n", "is_default": True, "hosts": [], "colour": "red"}], "more": 1}
    [zone] = msgspec.convert(newer, Zones).zones
    assert (zone.name, zone.created_at) == ("n", 0.0)
