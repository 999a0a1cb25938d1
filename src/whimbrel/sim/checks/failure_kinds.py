"""What sort of failure it is: which law, and in which words. A story that is made shorter has to keep to that."""

import re

_NAMES = re.compile(r"\b(?=\S*\d)[\w.:/-]+|\[[^]]*\]|\{[^}]*\}")
"""Ids, hosts, cells, times and amounts: what differs from one telling to the next."""

_INVARIANT = re.compile(r"I\d+")


def kind_of(failure: str | None) -> str:
    """Give the law that does not hold, and the first sentence about it without names; "" where all held.

    Of what did not end, of bugs and of answers it is the word in front: their texts are of no fixed form.
    """
    if failure is None:
        return ""
    what, _, said = failure.partition(": ")
    if _INVARIANT.fullmatch(what):
        said = said.partition(": ")[2]  # behind the event after which it was seen
    elif what != "rest":
        return what
    return f"{what}: {_NAMES.sub('*', said.split(';')[0])}"
