"""Names of resource classes and traits: the standard ones, and the form of custom ones.

The standard traits are loaded when first asked for: a start does not wait for them.
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
    """Tell whether a client may make a class or trait of this name."""
    return len(name) <= LONGEST and CUSTOM.match(name) is not None


def in_order(name: str) -> tuple[int, str]:
    """Sort resource classes as Placement lists them: the standard ones in their order, then custom ones."""
    return (STANDARD_CLASSES.index(name) if name in STANDARD_CLASSES else len(STANDARD_CLASSES), name)
