"""The table of routes and the list of microversions: what they name is there."""

import ast
from pathlib import Path

import whimbrel.api
from whimbrel.api.http.microversions import FIRST, LAST
from whimbrel.api.http.policy import RULES
from whimbrel.api.routes import ROUTES
from whimbrel.http.routes import OPEN

SOURCES = sorted(Path(whimbrel.api.__file__).parent.rglob("*.py"))
PREFIXES = ("os_compute_api:", "compute:", "whimbrel:")


def rules_in(source: Path) -> set[str]:
    """Find the rules that a module names."""
    tree = ast.parse(source.read_text())
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in parts}
    return {text for text in texts if isinstance(text, str) and text.startswith(PREFIXES) and text[-1].isalnum()}


def test_every_rule_that_is_asked_is_in_the_policy() -> None:
    asked = {route.rule for route in ROUTES if route.rule not in (None, OPEN)} | {
        r for source in SOURCES for r in rules_in(source)
    }
    assert asked - set(RULES) == set()


def test_no_two_lines_are_the_same() -> None:
    for minor in (FIRST, 30, 52, 60, LAST):
        lines = [(route.method, route.path, route.action) for route in ROUTES if route.serves(minor)]
        assert sorted({str(line) for line in lines}) == sorted(str(line) for line in lines)
