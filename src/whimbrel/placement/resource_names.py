"""Names of resource classes and traits: the standard ones, and the form of custom ones.

Standard traits are loaded on first use, so that they do not delay a start.
"""

import re
from functools import cache

import os_resource_classes

STANDARD_CLASSES: tuple[str, ...] = tuple(os_resource_classes.STANDARDS)
CUSTOM = re.compile(r"CUSTOM_[A-Z0-9_]+\Z")
LONGEST = 255


@cache
def standard_traits() -> frozenset[str]:
    import os_traits

    return frozenset(os_traits.get_traits())


def is_custom(name: str) -> bool:
    """Check whether a client may create a class or trait with this name."""
    return len(name) <= LONGEST and CUSTOM.match(name) is not None


def in_order(name: str) -> tuple[int, str]:
    """Return the sort key of Placement's lists: standard classes in their order, then custom ones."""
    return (STANDARD_CLASSES.index(name) if name in STANDARD_CLASSES else len(STANDARD_CLASSES), name)
