"""Schemas of bodies and queries by microversion: data, compiled when they are first needed.

Law: what no schema allows does not reach a handler.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs

from whimbrel.api.http.formats import EXPLAINED, FORMATS
from whimbrel.api.http.problems import Problem

Schema = Mapping[str, Any]


class Body:
    """Schemas of one body: first minor version -> schema. None: from there on nothing is checked."""

    def __init__(self, by_minor: Mapping[int, Schema | None]) -> None:
        self._schemas = dict(sorted(by_minor.items()))
        self._firsts = list(self._schemas)
        self._compiled: dict[int, jsonschema_rs.Draft202012Validator] = {}

    def at(self, minor: int) -> Schema | None:
        """Give the schema that holds at a version."""
        first = self._first(minor)
        return None if first is None else self._schemas[first]

    def check(self, minor: int, value: Any) -> None:
        """Raises: Problem: 400, naming the offending part."""
        first = self._first(minor)
        schema = None if first is None else self._schemas[first]
        if first is None or schema is None:
            return
        validator = self._compiled.get(first)
        if validator is None:
            validator = self._compiled[first] = compiled(schema)
        if not validator.is_valid(value):
            raise Problem(400, _sentence(validator, value))

    def _first(self, minor: int) -> int | None:
        place = bisect_right(self._firsts, minor)
        return self._firsts[place - 1] if place else None


class Query:
    """Schemas of one query string: first minor version -> key -> schema of its list of values.

    patterns: further keys by regular expression, at every version.
    strict_from: below that minor version unknown keys are dropped, from it on they are 400.
    """

    def __init__(
        self,
        by_minor: Mapping[int, Mapping[str, Schema]],
        *,
        strict_from: int,
        patterns: Mapping[str, Schema] | None = None,
    ) -> None:
        self._keys = dict(sorted(by_minor.items()))
        self._firsts = list(self._keys)
        self._patterns = patterns or {}
        self._strict_from = strict_from
        self._known = {first: self._body(keys, strict=False) for first, keys in self._keys.items()}
        self._only = {first: self._body(keys, strict=True) for first, keys in self._keys.items()}

    def _body(self, keys: Mapping[str, Schema], *, strict: bool) -> Body:
        return Body(
            {
                0: {
                    "type": "object",
                    "properties": dict(keys),
                    "patternProperties": dict(self._patterns),
                    "additionalProperties": not strict,
                }
            }
        )

    def keys_at(self, minor: int) -> Mapping[str, Schema]:
        """Give the keys that are known at a version."""
        return self._keys[self._firsts[max(bisect_right(self._firsts, minor) - 1, 0)]]

    def read(self, minor: int, sent: dict[str, list[str]]) -> dict[str, list[str]]:
        """Check what was sent and give what is known of it. Raises: Problem: 400."""
        first = self._firsts[max(bisect_right(self._firsts, minor) - 1, 0)]
        if minor >= self._strict_from:
            self._only[first].check(0, sent)
            return sent
        self._known[first].check(0, sent)
        keys = self._keys[first]
        return {key: values for key, values in sent.items() if key in keys or self._fits(key)}

    def _fits(self, key: str) -> bool:
        return any(re.match(pattern, key) for pattern in self._patterns)


NO_QUERY = Query({1: {}}, strict_from=102)
"""No query key means anything here."""


def compiled(schema: Schema) -> jsonschema_rs.Draft202012Validator:
    """Compile one schema, with our formats."""
    return jsonschema_rs.Draft202012Validator(dict(schema), formats=FORMATS, validate_formats=True)


def _sentence(validator: jsonschema_rs.Draft202012Validator, value: Any) -> str:
    error = _deepest(validator.iter_errors(value))
    where = ".".join(str(part) for part in error.instance_path)
    message = EXPLAINED.get(str(error.kind.as_dict().get("format")), error.message)
    message = message if len(message) <= 400 else message[:400] + "..."
    return f"Invalid input for {where}: {message}" if where else f"Invalid input: {message}"


def _deepest(found: Iterator[jsonschema_rs.ValidationError]) -> jsonschema_rs.ValidationError:
    """Give the error that says most: the one furthest down."""
    return max(found, key=lambda error: len(error.instance_path))
