"""Which files of a volume are left after a merge, and which merges there cannot be."""

import pytest

from whimbrel.domain.errors import Refused
from whimbrel.domain.volume_merge import Merge, merged

CHAIN = ["c", "b", "a", "base"]


@pytest.mark.parametrize(
    ("merge", "left"),
    [
        (Merge(), ["c"]),
        (Merge(base="base"), ["c", "base"]),
        (Merge(base="a"), ["c", "a", "base"]),
        (Merge(base="base", top="a"), ["c", "b", "base"]),
        (Merge(base="a", top="b"), ["c", "a", "base"]),
    ],
)
def test_what_is_left(merge: Merge, left: list[str]) -> None:
    assert merged(CHAIN, merge) == left
    assert merged(left, merge) == left, "it is done"


@pytest.mark.parametrize(
    "merge", [Merge(base="c"), Merge(base="x"), Merge(base="b", top="c"), Merge(base="base", top="b"),
              Merge(base="b", top="a"), Merge(base="a", top="a"), Merge(base="x", top="a")]
)  # fmt: skip
def test_files_that_are_not_one_above_the_other_are_refused(merge: Merge) -> None:
    with pytest.raises(Refused, match="chain"):
        merged(CHAIN, merge)
