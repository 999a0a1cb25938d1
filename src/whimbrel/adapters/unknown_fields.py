"""Finds what a newer program has added to a JSON document: fields that this program's types do not declare.

msgspec ignores such fields, which is right for a reader. A program that executes an order must refuse them, and one
that writes a document back must keep them.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect


class Place(NamedTuple):
    """Where a value is in a document."""

    path: str = ""  # for people: "spec.nics[].speed"
    keys: tuple[str | int, ...] = ()

    def inside(self, path: str, key: str | int) -> "Place":
        return Place(self.path + path, (*self.keys, key))


Search = Callable[[Any, Place], Iterator[Place]]
"""(decoded JSON, its place) -> the places of the unknown fields in it."""


def unknown_field(document: bytes, kind: Any) -> str | None:
    """Return the path of a field, such as "spec.nics[].speed", that `kind` does not declare; None: there is none.

    The document must decode as `kind`.
    """
    return next((place.path for place in _unknown(msgspec.json.decode(document), kind)), None)


def with_unknown(document: bytes, kind: Any, was: bytes) -> bytes:
    """Return `document` with the fields of `was` that `kind` does not declare. Both decode as `kind`.

    A field inside a nested object is kept if `document` still has that object: the one with the same id, or, of objects
    without ids, an equal one. The new fields of an object that this program has replaced are not those of the new one.
    """
    before = msgspec.json.decode(was)
    places = list(_unknown(before, kind))
    if not places:
        return document
    known = msgspec.json.decode(msgspec.json.encode(msgspec.json.decode(was, type=kind)))
    now = msgspec.json.decode(document)
    for place in places:
        *inner, name = place.keys
        value = before
        for key in place.keys:
            value = value[key]
        for then, here in _parents(known, now, tuple(inner)):
            if not inner or _is_same(then, here):
                here.setdefault(name, value)
                break
    return msgspec.json.encode(now)


def _parents(then: Any, now: Any, keys: tuple[str | int, ...]) -> Iterator[tuple[Any, Any]]:
    """Yield the object at these keys, as it was, with each object that may be the same one now."""
    if not keys:
        yield then, now
        return
    key, *rest = keys
    if isinstance(now, list) and isinstance(key, int):
        for number in (key, *(other for other in range(len(now)) if other != key)):
            if number < len(now):
                yield from _parents(then[key], now[number], tuple(rest))
    elif isinstance(now, dict) and key in now and key in then:
        yield from _parents(then[key], now[key], tuple(rest))


def _is_same(then: Any, now: Any) -> bool:
    if not isinstance(then, dict) or not isinstance(now, dict):
        return False
    name = next((name for name in then if name == "id" or name.endswith("_id")), None)
    return then == now if name is None else then[name] == now.get(name)


def _unknown(value: Any, kind: Any) -> Iterator[Place]:
    search = _search_of(kind)
    return search(value, Place()) if search else iter(())


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

    def search(value: Any, place: Place) -> Iterator[Place]:
        for name, each in value.items():
            at = place.inside(f".{name}" if place.path else name, name)
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

    def search(value: Any, place: Place) -> Iterator[Place]:
        for name, item in each(value):
            yield from inner(item, place.inside(step.format(name), name))

    return search


def _of_places(inners: list[Search | None]) -> Search | None:
    if not any(inners):
        return None

    def search(value: Any, place: Place) -> Iterator[Place]:
        for number, (inner, item) in enumerate(zip(inners, value, strict=True)):
            if inner:
                yield from inner(item, place.inside(f"[{number}]", number))

    return search


def _of_union(members: list[tuple[inspect.Type, Search | None]]) -> Search | None:
    """Search as the union member that a value belongs to: an object (tagged if there are several) or an array."""
    tagged = {kind.tag: (kind.tag_field, search) for kind, search in members if isinstance(kind, inspect.StructType)}
    mapped = next((search for kind, search in members if isinstance(kind, inspect.DictType)), None)
    listed = next((search for kind, search in members if isinstance(kind, _ARRAYS)), None)
    if not (tagged or mapped or listed):
        return None

    def search(value: Any, place: Place) -> Iterator[Place]:
        inner = listed if isinstance(value, list) else None
        if isinstance(value, dict):
            inner = next((found for tag, (field, found) in tagged.items() if not field or value[field] == tag), mapped)
        if inner:
            yield from inner(value, place)

    return search


_ARRAYS = inspect.CollectionType | inspect.TupleType
