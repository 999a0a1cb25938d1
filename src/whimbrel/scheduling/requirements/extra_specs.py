"""Flavors' extra specs as filters read them: which concern a filter, and when a value fulfils one.

Source: Nova's operators of extra specs, in ComputeCapabilitiesFilter and AggregateInstanceExtraSpecsFilter.
"""

import operator
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from whimbrel.domain.flavor import Flavor
from whimbrel.scheduling.constraint import Suggestion

OF_PLACEMENT = re.compile(r"group_policy|same_subtree[a-zA-Z0-9_-]{0,64}")

Compare = Callable[[str, list[str]], bool]


class Spec(NamedTuple):
    key: str  # as the flavor has it
    name: str  # without its scope
    wanted: str


def specs_in(scope: str, flavor: Flavor | None) -> Iterator[Spec]:
    """List the extra specs of a scope, with those that have no scope: these concern every filter that reads some.

    Those without a scope that placement is asked by concern no filter.
    """
    for key, wanted in (flavor.extra_specs if flavor else {}).items():
        before, colon, name = key.partition(":")
        if not colon and not OF_PLACEMENT.fullmatch(key):
            yield Spec(key, key, wanted)
        elif before == scope:
            yield Spec(key, name, wanted)


def without(spec: Spec) -> Suggestion:
    return lambda host_index: f"a flavor without {spec.key}"


def fulfils(value: str, wanted: str) -> bool:
    """Tell whether a value is as the flavor asks: an operator and what follows, or else the very words."""
    first, *words = wanted.split() or [""]
    if (compare := _OPERATORS.get(first)) is None:
        return value == wanted
    return bool(words) and compare(value, words)


def _numbers(compare: Callable[[float, float], bool]) -> Compare:
    """What is no number fulfils nothing."""

    def holds(value: str, words: list[str]) -> bool:
        try:
            return compare(float(value), float(words[0]))
        except ValueError:
            return False

    return holds


def _texts(compare: Callable[[str, str], bool]) -> Compare:
    return lambda value, words: compare(value, words[0])


_OPERATORS: dict[str, Compare] = {
    "=": _numbers(operator.ge),
    "==": _numbers(operator.eq),
    "!=": _numbers(operator.ne),
    ">=": _numbers(operator.ge),
    "<=": _numbers(operator.le),
    "s==": _texts(operator.eq),
    "s!=": _texts(operator.ne),
    "s>=": _texts(operator.ge),
    "s>": _texts(operator.gt),
    "s<=": _texts(operator.le),
    "s<": _texts(operator.lt),
    "<in>": _texts(operator.contains),
    "<all-in>": lambda value, words: all(word in value for word in words),
    "<or>": lambda value, words: value in words[::2],  # between the words it is repeated
}
