"""Flavors' extra specs as filters read them: which ones apply to a filter, and which values fulfil them.

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
    key: str  # as in the flavor
    name: str  # without its scope
    wanted: str


def specs_in(scope: str, flavor: Flavor | None) -> Iterator[Spec]:
    """Yield the extra specs of a scope and those without a scope, which apply to every filter that reads extra
    specs. Those without a scope that belong to Placement are skipped.
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
    """Check whether a value fulfils the extra spec: an operator with operands, or the exact text."""
    first, *words = wanted.split() or [""]
    if (compare := _OPERATORS.get(first)) is None:
        return value == wanted
    return bool(words) and compare(value, words)


def _numbers(compare: Callable[[float, float], bool]) -> Compare:
    """A value that is not a number fulfils nothing."""

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
    "<or>": lambda value, words: value in words[::2],  # the operator is repeated between the operands
}
