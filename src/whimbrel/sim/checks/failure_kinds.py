"""Classify failures by invariant and wording. Shrinking a story must keep its kind of failure."""

import re

_NAMES = re.compile(r"\b(?=\S*\d)[\w.:/-]+|\[[^]]*\]|\{[^}]*\}")
"""Ids, hosts, cells, times and amounts: they differ between runs."""

_INVARIANT = re.compile(r"I\d+")


def kind_of(failure: str | None) -> str:
    """Return the violated invariant and its first sentence without names, or "" for no failure.

    Timeouts, bugs and unexpected answers have no fixed form: only their first word counts.
    """
    if failure is None:
        return ""
    what, _, said = failure.partition(": ")
    if _INVARIANT.fullmatch(what):
        said = said.partition(": ")[2]  # the text before it is the event
    elif what != "rest":
        return what
    return f"{what}: {_NAMES.sub('*', said.split(';')[0])}"
