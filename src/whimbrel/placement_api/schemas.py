"""Validation of values against schemas, with the sentences that Placement's clients look for.

Invariant: the sentences are those of Python's jsonschema, which Placement uses, and so is the choice among several
errors: the outermost, among those the last.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jsonschema_rs

from whimbrel.http.schema import Checker, Schema, is_uuid

LONGEST_SENTENCE = 400


def is_dashed_uuid(text: str) -> bool:
    return is_uuid(text) and len(text) == 36 and all(text[place] == "-" for place in (8, 13, 18, 23))


FORMATS: Mapping[str, Callable[[str], bool]] = {
    "uuid": is_uuid,
    "dashed-uuid": is_dashed_uuid,
    "no-nul": lambda text: "\x00" not in text,
}


def checker(schema: Schema, opening: str) -> Checker:
    """Compile one schema. opening: of the sentences for the values that it refuses."""

    def explain(schema: Schema, errors: Iterable[jsonschema_rs.ValidationError]) -> str:
        return f"{opening}: {_sentence(schema, max(errors, key=_nearness))}"

    return Checker(schema, FORMATS, explain)


def _nearness(error: jsonschema_rs.ValidationError) -> tuple[int, list[tuple[int, str]]]:
    path = [(part, "") if isinstance(part, int) else (-1, part) for part in error.instance_path]
    return -len(path), path


def _sentence(schema: Schema, error: jsonschema_rs.ValidationError) -> str:
    *around, keyword = error.schema_path
    part: Any = schema
    for step in around:
        part = part[step]
    said = _SENTENCES[str(keyword)](error, part) if keyword in _SENTENCES else error.message
    if len(said) > LONGEST_SENTENCE:
        said = said[:LONGEST_SENTENCE] + "..."
    here, there = _subscripts(around), _subscripts(error.instance_path)
    return f"{said}. Failed validating {keyword!r} in schema{here}, on instance{there}."


def _subscripts(path: list[str | int]) -> str:
    return "".join(f"[{part!r}]" for part in path)


_Say = Callable[[jsonschema_rs.ValidationError, Any], str]  # the second: the part of the schema around the keyword


def _unexpected(error: jsonschema_rs.ValidationError, part: Any) -> str:
    names = sorted(error.kind.as_dict()["unexpected"])
    listed = ", ".join(map(repr, names))
    if patterns := sorted(part.get("patternProperties", ())):
        verb = "does" if len(names) == 1 else "do"
        return f"{listed} {verb} not match any of the regexes: {', '.join(map(repr, patterns))}"
    verb = "was" if len(names) == 1 else "were"
    return f"Additional properties are not allowed ({listed} {verb} unexpected)"


def _too_little(keyword: str, otherwise: str) -> _Say:
    return lambda error, part: f"{error.instance!r} {'should be non-empty' if part[keyword] == 1 else otherwise}"


def _types(part: Any) -> str:
    types = part["type"] if isinstance(part["type"], list) else [part["type"]]
    return ", ".join(map(repr, types))


_SENTENCES: Mapping[str, _Say] = {
    "additionalProperties": _unexpected,
    "enum": lambda error, part: f"{error.instance!r} is not one of {part['enum']!r}",
    "format": lambda error, part: f"{error.instance!r} is not a {part['format'].removeprefix('dashed-')!r}",
    "maximum": lambda error, part: f"{error.instance!r} is greater than the maximum of {part['maximum']!r}",
    "maxLength": lambda error, _: f"{error.instance!r} is too long",
    "minimum": lambda error, part: f"{error.instance!r} is less than the minimum of {part['minimum']!r}",
    "minItems": _too_little("minItems", "is too short"),
    "minLength": _too_little("minLength", "is too short"),
    "minProperties": _too_little("minProperties", "does not have enough properties"),
    "pattern": lambda error, part: f"{error.instance!r} does not match {part['pattern']!r}",
    "required": lambda error, _: f"{error.kind.as_dict()['property']!r} is a required property",
    "type": lambda error, part: f"{error.instance!r} is not of type {_types(part)}",
    "uniqueItems": lambda error, _: f"{error.instance!r} has non-unique elements",
}
