"""Rules that aggregate metadata can override for their hosts, under the rule's name; the smallest value applies."""

import math
from collections.abc import Callable

import numpy as np

from whimbrel.ports.arrays import Floats
from whimbrel.ports.stores.fleet import Fleet


def overridden(fleet: Fleet, name: str, rule: float, read: Callable[[str], float] = float) -> Floats:
    """Return the rule for each host. read: raises ValueError for an invalid number, which is ignored."""
    return fleet.once(_column, name, rule, read)


def _column(fleet: Fleet, name: str, rule: float, read: Callable[[str], float]) -> Floats:
    column = np.full(len(fleet), np.inf)
    for aggregate, members in fleet.marked(name):
        if (number := _number(aggregate.metadata[name], read)) is not None:
            column[members] = np.minimum(column[members], number)
    column[np.isinf(column)] = rule
    return column


def _number(text: str, read: Callable[[str], float]) -> float | None:
    try:
        number = read(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
