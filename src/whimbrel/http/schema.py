"""JSON schemas by microversion.

Invariant: a value that its schema refuses does not reach a handler.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

import jsonschema_rs

from whimbrel.http.problem import Problem

Schema = Mapping[str, Any]
Formats = Mapping[str, Callable[[str], bool]]
Explain = Callable[[Schema, Iterable[jsonschema_rs.ValidationError]], str]
"""Returns the sentence of a refusal for the schema and its errors, of which there is at least one."""


def is_uuid(text: str) -> bool:
    """Check whether a text is a uuid, with dashes or without."""
    try:
        return UUID(text).hex == text.replace("-", "").lower()
    except ValueError:
        return False


class Checker:
    def __init__(self, schema: Schema, formats: Formats, explain: Explain) -> None:
        self._schema = schema
        self._explain = explain
        self._validator = jsonschema_rs.Draft202012Validator(dict(schema), formats=dict(formats), validate_formats=True)
        self.is_valid = self._validator.is_valid

    def check(self, value: Any) -> None:
        """Raises: Problem: 400, naming the offending part."""
        if not self.is_valid(value):
            raise Problem(400, self._explain(self._schema, self._validator.iter_errors(value)))


class VersionedSchema:
    """The schemas of one value: first minor version -> schema, None: no check from there on. Compiled on first use."""

    def __init__(self, by_minor: Mapping[int, Schema | None], compiled: Callable[[Schema], Checker]) -> None:
        self._schemas = dict(sorted(by_minor.items()))
        self._firsts = list(self._schemas)
        self._compiled = compiled
        self._checkers: dict[int, Checker] = {}

    @property
    def minors(self) -> list[int]:
        """Return the first minor version of each schema."""
        return self._firsts

    def at(self, minor: int) -> Schema | None:
        """Return the schema of a version."""
        index = bisect_right(self._firsts, minor)
        return self._schemas[self._firsts[index - 1]] if index else None

    def check(self, minor: int, value: Any) -> None:
        """Raises: Problem: 400, naming the offending part."""
        index = bisect_right(self._firsts, minor)
        checker = self._checkers.get(index)
        if checker is None:
            schema = self.at(minor)
            if schema is None:
                return
            checker = self._checkers[index] = self._compiled(schema)
        checker.check(value)
