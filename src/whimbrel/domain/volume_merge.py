"""Chains of a volume's files, each with the changes since its snapshot, and how two of them become one.

Invariant: the active file, to which the guest writes, stays the active one.
"""

from collections.abc import Sequence

import msgspec

from whimbrel.domain.errors import Refused


class Merge(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """top: the file whose changes are committed to `base`, the one below it, and which nothing uses afterwards.

    Without `top` the active file takes in all that is between it and `base`; without `base` all that is below it.
    """

    base: str | None = None
    top: str | None = None


def merged(chain: Sequence[str], merge: Merge) -> list[str]:
    """Return the chain after a merge; the same: it is done. chain: the active file, then each one below it.

    Raises: Refused: the files are not in the chain, or not one above the other.
    """
    active, *below = chain
    if merge.top is None and merge.base is None:
        return [active]
    if merge.base not in below:
        raise Refused(f"the volume does not use file {merge.base} below {active}: its chain is {', '.join(chain)}")
    lower = below[below.index(merge.base) :]
    if merge.top is None:
        return [active, *lower]
    if merge.top not in chain:
        return list(chain)
    if merge.top == active or below[: below.index(merge.base)][-1:] != [merge.top]:
        raise Refused(f"file {merge.top} is not between {active} and {merge.base}: the chain is {', '.join(chain)}")
    return [name for name in chain if name != merge.top]
