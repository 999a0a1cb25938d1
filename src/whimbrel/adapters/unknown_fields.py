"""Finds what a newer program has added to a JSON document: fields that this program's types do not declare.

msgspec ignores such fields, which is right for a reader. A program that executes an order or writes a document back
must not ignore them.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

Search = Callable[[Any, str], Iterator[str]]
"""(decoded JSON, its path) -> the paths of the unknown fields in it."""


def unknown_field(document: bytes, kind: Any) -> str | None:
    """Return the path of a field, such as "spec.nics[].speed", that `kind` does not declare; None: there is none.

    The document must decode as `kind`.
    """
    search = _search_of(kind)
    return next(search(msgspec.json.decode(document), ""), None) if search else None


@cache
def _search_of(kind: Any) -> Search | None:
    return _search(inspect.type_info(kind), {})


def _search(kind: inspect.Type, made: dict[int, Search]) -> Search | None:
    """Return a search function for values of this type; None: they have no fields. made: by type, for recursion."""
    match kind:
        case inspect.StructType(fields=fields):
            return made[id(kind)] if id(kind) in made else _of_struct(kind, fields, made)
        case inspect.DictType(value_type=inner):
            return _of_each(_search(inner, made), lambda value: value.items(), ".{}")
        case inspect.CollectionType(item_type=inner):
            return _of_each(_search(inner, made), enumerate, "[]")
        case inspect.TupleType(item_types=inners):
            return _of_places([_search(inner, made) for inner in inners])
        case inspect.UnionType(types=types):
            return _of_union([(each, _search(each, made)) for each in types])
    return None


def _of_struct(kind: inspect.StructType, fields: tuple[inspect.Field, ...], made: dict[int, Search]) -> Search:
    assert not kind.array_like, "a document has names for its fields"
    inner: dict[str, Search | None] = {}
    if kind.tag_field:
        inner[kind.tag_field] = None

    def search(value: Any, path: str) -> Iterator[str]:
        for name, each in value.items():
            at = f"{path}.{name}" if path else name
            if name not in inner:
                yield at
            elif (deeper := inner[name]) and each is not None:
                yield from deeper(each, at)

    made[id(kind)] = search
    inner.update((field.encode_name, _search(field.type, made)) for field in fields)
    return search


def _of_each(inner: Search | None, each: Callable[[Any], Any], step: str) -> Search | None:
    if inner is None:
        return None

    def search(value: Any, path: str) -> Iterator[str]:
        for name, item in each(value):
            yield from inner(item, path + step.format(name))

    return search


def _of_places(inners: list[Search | None]) -> Search | None:
    if not any(inners):
        return None

    def search(value: Any, path: str) -> Iterator[str]:
        for number, (inner, item) in enumerate(zip(inners, value, strict=True)):
            if inner:
                yield from inner(item, f"{path}[{number}]")

    return search


def _of_union(members: list[tuple[inspect.Type, Search | None]]) -> Search | None:
    """Search as the union member that a value belongs to: an object (tagged if there are several) or an array."""
    tagged = {kind.tag: (kind.tag_field, search) for kind, search in members if isinstance(kind, inspect.StructType)}
    mapped = next((search for kind, search in members if isinstance(kind, inspect.DictType)), None)
    listed = next((search for kind, search in members if isinstance(kind, _ARRAYS)), None)
    if not (tagged or mapped or listed):
        return None

    def search(value: Any, path: str) -> Iterator[str]:
        inner = listed if isinstance(value, list) else None
        if isinstance(value, dict):
            inner = next((found for tag, (field, found) in tagged.items() if not field or value[field] == tag), mapped)
        if inner:
            yield from inner(value, path)

    return search


_ARRAYS = inspect.CollectionType | inspect.TupleType
