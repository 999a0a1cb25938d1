"""JsonFilter: a query over hosts in a server's hint `query`, such as `[">=", "$free_ram_mb", 1024]`.

An operation is a list of its name and arguments: operations, values, or `$NAME[.SUB]` for an attribute of hosts, by
the names of ComputeCapabilitiesFilter. Missing attributes are omitted from the arguments. An invalid query lets no
host pass, and reports the error.
Source: Nova's JsonFilter, where an error fails the request, and a `not` inside another operation always holds.
"""

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from whimbrel.ports.arrays import Mask
from whimbrel.ports.stores.fleet import Fleet
from whimbrel.scheduling.constraint import Constraint
from whimbrel.scheduling.filters.by_capability import AMOUNTS, ATTRIBUTES, inside
from whimbrel.scheduling.request import Request
from whimbrel.scheduling.snapshot import Snapshot

NAME, HINT = "JsonFilter", "query"
MOST_PARTS = 100
"""Maximum number of operations and arguments of a query: each is evaluated for each host."""

Column = NDArray[np.object_]
"""A value for each host, or None."""


class _NotUnderstood(Exception):
    pass


def query(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    if not (asked := request.hints.get(HINT)):
        return
    try:
        passes = _truth(_value(_read(asked), snapshot))
    except _NotUnderstood as error:
        yield Constraint(NAME, ~snapshot.all, f"the hint {HINT} cannot be understood: {error}")
    else:
        yield Constraint(NAME, passes, f"it does not fulfil the hint {HINT}")


def _read(asked: Any) -> Any:
    try:
        read = msgspec.json.decode(asked) if isinstance(asked, str) else asked
    except (msgspec.DecodeError, RecursionError):
        raise _NotUnderstood("it is no JSON that can be read") from None
    if not isinstance(read, list):
        raise _NotUnderstood("it is no list of an operation and its arguments")
    if _parts(read, MOST_PARTS) > MOST_PARTS:
        raise _NotUnderstood(f"it has more than {MOST_PARTS} operations and arguments")
    return read


def _short(term: Any) -> str:
    return str(term)[:40]


def _parts(term: Any, most: int) -> int:
    """Count the parts, stopping above the maximum."""
    count = 1
    for part in term if isinstance(term, list) else ():
        if count > most:
            break
        count += _parts(part, most - count)
    return count


def _value(term: Any, snapshot: Snapshot) -> Column:
    if isinstance(term, list):
        return _operation(term, snapshot)
    if isinstance(term, str) and term.startswith("$"):
        return _of_hosts(term[1:].split("."), snapshot)
    column = np.empty(len(snapshot), np.object_)
    column.fill(term)
    return column


def _operation(term: list[Any], snapshot: Snapshot) -> Column:
    """Evaluate an operation for each host. An empty one is true."""
    if not term:
        return _column(snapshot.all)
    name, *others = term
    if not isinstance(name, str) or name not in _OPERATIONS:
        raise _NotUnderstood(f"'{_short(name)}' is none of the operations {', '.join(_OPERATIONS)}")
    columns = [_value(other, snapshot) for other in others]
    results = [_OPERATIONS[name]([each for each in at if each is not None]) for at in _rows(columns, snapshot)]
    return _column(results)


def _rows(columns: list[Column], snapshot: Snapshot) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.tolist() for column in columns), strict=True) if columns else iter([()] * len(snapshot))


def _column(values: Any) -> Column:
    column = np.empty(len(values), np.object_)
    column[:] = [bool(value) for value in values]
    return column


def _truth(column: Column) -> Mask:
    return column.astype(np.bool_)


def _of_hosts(path: list[str], snapshot: Snapshot) -> Column:
    name, *inner = path
    if name in AMOUNTS and not inner:
        return AMOUNTS[name](snapshot).astype(np.object_)
    if name in ATTRIBUTES:
        return snapshot.fleet.once(_attributes, ATTRIBUTES[name], tuple(inner))
    raise _NotUnderstood(f"hosts have no '{_short('.'.join(path))}', but {', '.join((*ATTRIBUTES, *AMOUNTS))}")


def _attributes(fleet: Fleet, attribute: str, inner: tuple[str, ...]) -> Column:
    column = np.empty(len(fleet), np.object_)
    column[:] = [inside(getattr(host, attribute), inner) for host in fleet.hosts]
    return column


def _compare(compare: Callable[[Any, Any], bool]) -> Callable[[list[Any]], bool]:
    """Compare the first value with all others; a single value, or incomparable ones, are false."""

    def holds(values: list[Any]) -> bool:
        first, *others = values or [None]
        try:
            return bool(others) and all(compare(first, other) for other in others)
        except TypeError:
            return False

    return holds


_OPERATIONS: Mapping[str, Callable[[list[Any]], bool]] = {
    "=": _compare(operator.eq),
    "<": _compare(operator.lt),
    ">": _compare(operator.gt),
    "in": lambda values: len(values) > 1 and values[0] in values[1:],
    "<=": _compare(operator.le),
    ">=": _compare(operator.ge),
    "not": lambda values: any(not value for value in values),
    "or": any,
    "and": all,
}
