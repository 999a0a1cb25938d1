"""The fields of a type's JSON documents as text, for files that say what was released: classes may be renamed."""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

WORDS = {
    inspect.StrType: "string",
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.BoolType: "boolean",
    inspect.NoneType: "null",
    inspect.BytesType: "bytes",
    inspect.AnyType: "any",
}


def fields_of(kind: Any) -> dict[str, str]:
    """Return field -> its type and default, such as "ports[].nic.mac": "string" or "tries": "integer = 0"."""
    return dict(_fields(inspect.type_info(kind), ""))


def _fields(kind: inspect.Type, path: str) -> Iterator[tuple[str, str]]:
    match kind:
        case inspect.StructType(fields=fields):
            for field in fields:
                name = f"{path}.{field.encode_name}" if path else field.encode_name
                yield name, _word(field.type) + _default(field)
                yield from _fields(field.type, name)
        case inspect.DictType(value_type=inner):
            yield from _fields(inner, f"{path}{{}}")
        case inspect.CollectionType(item_type=inner):
            yield from _fields(inner, f"{path}[]")
        case inspect.TupleType(item_types=inners):
            for number, each in enumerate(inners):
                yield from _fields(each, f"{path}[{number}]")
        case inspect.UnionType(types=types):
            for each in types:
                tag = f"<{each.tag}>" if isinstance(each, inspect.StructType) and each.tag is not None else ""
                yield from _fields(each, path + tag)


def _word(kind: inspect.Type) -> str:
    match kind:
        case inspect.StructType(tag=tag):
            return "object" if tag is None else f"object <{tag}>"
        case inspect.DictType(value_type=inner):
            return f"object of {_word(inner)}"
        case inspect.CollectionType(item_type=inner):
            return f"array of {_word(inner)}"
        case inspect.TupleType(item_types=inners):
            return f"array of ({', '.join(map(_word, inners))})"
        case inspect.UnionType(types=types):
            return " | ".join(map(_word, types))
        case inspect.LiteralType(values=values):
            return " | ".join(f'"{value}"' for value in values)
    return WORDS[type(kind)]


def _default(field: inspect.Field) -> str:
    if field.required:
        return ""
    if field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT:
        return " (may be missing)"
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return f" = {msgspec.json.encode(value).decode()}"
