"""What changes from one microversion of Nova 34 to the next: nova_schema_changes.txt, read."""

from collections.abc import Mapping
from pathlib import Path

from tools.api_table import shape

FILE = Path(__file__).with_name("nova_schema_changes.txt")

Key = tuple[str, str, str | None]
"""Method, path without the names of its parameters, and action."""

LINES = [line.split() for line in FILE.read_text().splitlines() if not line.startswith("#")]


def _key(method: str, path: str, action: str | None = None) -> Key:
    return method, shape(path), action


def requests(what: str) -> Mapping[Key, list[int]]:
    """Return the minor versions from which a body or a query (`what`) has another schema."""
    found = {}
    for words in LINES:
        if what in words[2:4]:
            at = words.index(what, 2)
            found[_key(*words[:at])] = [int(minor) for minor in words[at + 1 :]]
    return found


def answers() -> Mapping[Key, Mapping[int, frozenset[str]]]:
    """Return how the keys of answers change: +new, -gone, ~of another type."""
    found: dict[Key, dict[int, frozenset[str]]] = {}
    for words in LINES:
        if "answer" in words[2:4]:
            at = words.index("answer", 2)
            found.setdefault(_key(*words[:at]), {})[int(words[at + 1])] = frozenset(words[at + 2 :])
    return found
