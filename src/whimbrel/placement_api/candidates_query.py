"""What GET /allocation_candidates is asked: groups of resources, and what holds for all of them.

Law: a group that nothing could serve, because it is half said, is refused and not guessed at.
"""

from collections.abc import Mapping
from typing import Literal

from whimbrel.placement.search import UNNAMED, Request, Wanted
from whimbrel.placement_api.call import Call
from whimbrel.placement_api.problems import BAD_VALUE, MISSING_VALUE, Problem
from whimbrel.placement_api.queries import (
    CANDIDATES,
    check_names,
    group,
    invalid,
    plain_traits,
    split,
    trait_names,
)

SUBTREES_SINCE = 36
NESTED_SINCE = 29


async def request(call: Call) -> Request:
    """Read the whole query. Raises: Problem: 400: malformed, unknown names, or groups that cannot be."""
    groups = _groups(call)
    subtrees = _subtrees(call)
    _check_groups(call, groups, subtrees)
    root_required, root_forbidden = _root(call)
    found = Request(
        groups=groups,
        group_policy=_policy(call, groups),
        same_subtree=subtrees,
        root_required=root_required,
        root_forbidden=root_forbidden,
        nested=call.minor >= NESTED_SINCE,
        limit=_limit(call),
    )
    await _check_names(call, found)
    return found


def _groups(call: Call) -> dict[str, Wanted]:
    suffixes: dict[str, None] = {}  # in the order in which they come
    for key in call.query:
        stem, suffix = split(key, call.minor) if key not in CANDIDATES else (key, UNNAMED)
        if CANDIDATES[stem].is_of_group:
            suffixes[suffix] = None
    return {suffix: group(call, suffix) for suffix in suffixes}


def _subtrees(call: Call) -> list[frozenset[str]]:
    subtrees = [frozenset(suffix.strip() for suffix in text.split(",")) for text in call.query.get("same_subtree", ())]
    if any(UNNAMED in some for some in subtrees):
        reason = "Empty string (unsuffixed group) can not be specified in `same_subtree`: it may have many providers."
        raise Problem(400, reason, BAD_VALUE)
    return subtrees


def _check_groups(call: Call, groups: Mapping[str, Wanted], subtrees: list[frozenset[str]]) -> None:
    """Raises: Problem: 400: nothing is asked for, or what is asked for a group or subtree goes to nothing."""
    bare = [suffix for suffix, wanted in groups.items() if not wanted.resources]
    if call.minor < SUBTREES_SINCE:
        _check_orphans(call, groups, bare)
        return
    if len(bare) == len(groups):
        reason = "There must be at least one resources or resources[$S] parameter."
        raise Problem(400, reason, MISSING_VALUE)
    named = frozenset[str]().union(*subtrees)
    if alone := sorted(set(bare) - named):
        reason = "Resourceless suffixed group request should be specified in `same_subtree` query param"
        raise Problem(400, f"{reason}: bad group(s): {_listed(alone)}.", BAD_VALUE)
    if unknown := sorted(named - groups.keys()):
        reason = "Real suffixes should be specified in `same_subtree`"
        raise Problem(400, f"{reason}: {_listed(unknown)} not found in {_listed(groups)}.", BAD_VALUE)


def _check_orphans(call: Call, groups: Mapping[str, Wanted], bare: list[str]) -> None:
    """Raises: Problem: 400: a group has no resources, or there is no group."""
    for stem, what in (("required", "traits"), ("member_of", "member_of"), ("in_tree", "in_tree")):
        if orphans := [stem + suffix for suffix in bare if stem + suffix in call.query]:
            reason = f"All {what} parameters must be associated with resources"
            names = ", ".join(orphans)
            raise Problem(400, f"{reason}. Found the following orphaned {what} keys: {names}")
    if not groups:
        raise Problem(400, "At least one request group (`resources` or `resources{$S}`) is required.")


def _listed(suffixes: Mapping[str, Wanted] | list[str]) -> str:
    return ", ".join(repr(suffix) for suffix in suffixes)


def _policy(call: Call, groups: Mapping[str, Wanted]) -> Literal["none", "isolate"]:
    text = call.value("group_policy")
    if text is None:
        if len(groups.keys() - {UNNAMED}) > 1:
            reason = 'The "group_policy" parameter is required when specifying more than one "resources{N}" parameter.'
            raise Problem(400, reason)
        return "none"
    if text == "isolate":
        return "isolate"
    if text == "none":
        return "none"
    raise invalid(f"group_policy must be 'none' or 'isolate'. Got: {text[:40]!r}")


def _root(call: Call) -> tuple[list[frozenset[str]], frozenset[str]]:
    text = call.value("root_required")
    if text is None:
        return [], frozenset()
    if text.startswith("in:"):
        raise invalid(f"root_required takes no alternatives, a list of traits only. Got: {text[:200]!r}")
    required, forbidden = plain_traits(call, text)
    if both := frozenset().union(*required) & forbidden:
        reason = "Conflicting required and forbidden traits found in root_required"
        raise Problem(400, f"{reason}: {', '.join(sorted(both))}.", BAD_VALUE)
    return required, forbidden


def _limit(call: Call) -> int | None:
    text = call.value("limit")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and not text.startswith("0") and len(text) < 100):
        raise invalid(f"limit must be 1 or more. Got: {text[:40]!r}")
    return min(int(text), 2**31)


async def _check_names(call: Call, found: Request) -> None:
    traits = {name for some in found.root_required for name in some} | found.root_forbidden
    resources: set[str] = set()
    for wanted in found.groups.values():
        resources |= wanted.resources.keys()
        traits |= trait_names(wanted)
    await check_names(call.store, resources, traits)
