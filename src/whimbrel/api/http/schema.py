"""Schemas of bodies and queries by microversion: data, compiled on first use."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import partial

import jsonschema_rs

from whimbrel.api.http.formats import EXPLAINED, FORMATS
from whimbrel.http.schema import Checker, Schema, VersionedSchema

QUERY = "query parameters"
NEVER = 1000
MOST_SHOWN = 400
"""How many characters of a wrong value are repeated."""


def compiled(schema: Schema, kind: str = "field/attribute") -> Checker:
    """kind: what Nova calls the part of the request that the schema is of."""
    return Checker(schema, FORMATS, partial(_sentence, kind))


def _sentence(kind: str, _schema: Schema, errors: Iterable[jsonschema_rs.ValidationError]) -> str:
    """Return Nova's sentence, which begins with the name of the field and its value: clients show and look for both."""
    error = max(errors, key=lambda each: len(each.instance_path))  # the innermost part is the most specific
    message = _shortened(_message(error))
    if not error.instance_path:
        return message
    name = error.instance_path[0 if kind == QUERY else -1]  # of a query: the key, not the number of its value
    return f"Invalid input for {kind} {name}. Value: {_shortened(error.instance)}. {message}"


def _message(error: jsonschema_rs.ValidationError) -> str:
    if error.kind.name == "maxLength":
        return f"{str(error.instance)[:MOST_SHOWN]!r} is too long"
    return EXPLAINED.get(str(error.kind.as_dict().get("format")), error.message)


def _shortened(value: object) -> str:
    text = str(value)
    return text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "..."


class Body(VersionedSchema):
    """The schemas of one body."""

    def __init__(self, by_minor: Mapping[int, Schema | None]) -> None:
        super().__init__(by_minor, compiled)


class Query:
    """The schemas of one query string: first minor version -> key -> schema of its list of values.

    patterns: further keys by regular expression, at every version.
    strict_from: below that minor version unknown keys are dropped, from it on they are 400; NEVER: they are dropped.
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

    def _body(self, keys: Mapping[str, Schema], *, strict: bool) -> VersionedSchema:
        schema = {
            "type": "object",
            "properties": dict(keys),
            "patternProperties": dict(self._patterns),
            "additionalProperties": not strict,
        }
        return VersionedSchema({0: schema}, partial(compiled, kind=QUERY))

    @property
    def minors(self) -> list[int]:
        """Return the first minor version of each set of keys."""
        return self._firsts

    def keys_at(self, minor: int) -> Mapping[str, Schema]:
        return self._keys[self._firsts[max(bisect_right(self._firsts, minor) - 1, 0)]]

    def is_strict(self, minor: int) -> bool:
        return minor >= self._strict_from

    def read(self, minor: int, sent: dict[str, list[str]]) -> dict[str, list[str]]:
        """Check a query and return its known keys. Raises: Problem: 400."""
        first = self._firsts[max(bisect_right(self._firsts, minor) - 1, 0)]
        if self.is_strict(minor):
            self._only[first].check(0, sent)
            return sent
        self._known[first].check(0, sent)
        keys = self._keys[first]
        return {key: values for key, values in sent.items() if key in keys or self._fits(key)}

    def _fits(self, key: str) -> bool:
        return any(re.match(pattern, key) for pattern in self._patterns)


NO_QUERY = Query({1: {}}, strict_from=102)
"""The query of routes that do not read one."""
IGNORED = Query({1: {}}, strict_from=NEVER)
"""The query of routes that take any at every version, as in Nova."""
