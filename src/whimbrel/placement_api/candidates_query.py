"""The query of GET /allocation_candidates: groups of resources, and conditions on all of them.

Invariant: an incomplete group is refused, not guessed at.
"""

from collections.abc import Mapping
from typing import Literal

from whimbrel.http.problem import Problem
from whimbrel.placement.inventory import MAX_INT
from whimbrel.placement.search import UNNAMED, Request, Wanted
from whimbrel.placement_api.call import Call
from whimbrel.placement_api.problems import BAD_VALUE, DUPLICATE_KEY, MISSING_VALUE
from whimbrel.placement_api.queries import OF_CANDIDATES, check_names, group, plain_traits, split, trait_names

SUBTREES_SINCE = 36
NESTED_SINCE = 29


async def request(call: Call) -> Request:
    """Parse the whole query. Raises: Problem: 400: malformed, unknown names, or impossible groups."""
    root_required, root_forbidden = _root(call)
    subtrees = _subtrees(call)
    groups = _groups(call)
    _check_groups(call, groups, subtrees)
    _check_traits(groups)
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
    suffixes: dict[str, None] = {}  # in the order of the query
    for key in call.query:
        stem, suffix = split(key, call.minor) if key not in OF_CANDIDATES else (key, UNNAMED)
        if OF_CANDIDATES[stem].is_of_group:
            suffixes[suffix] = None
    return {suffix: group(call, suffix) for suffix in suffixes}


def _subtrees(call: Call) -> list[frozenset[str]]:
    subtrees = [frozenset(suffix.strip() for suffix in text.split(",")) for text in call.query.get("same_subtree", ())]
    if any(UNNAMED in some for some in subtrees):
        raise Problem(400, "Empty string (unsuffixed group) can not be specified in `same_subtree`", BAD_VALUE)
    return subtrees


def _check_groups(call: Call, groups: Mapping[str, Wanted], subtrees: list[frozenset[str]]) -> None:
    """Raises: Problem: 400: no resources are requested, or a group or subtree refers to nothing."""
    bare = [suffix for suffix, wanted in groups.items() if not wanted.resources]
    if call.minor < SUBTREES_SINCE:
        _check_orphans(groups, bare)
        return
    if len(bare) == len(groups):
        reason = "There must be at least one resources or resources[$S] parameter."
        raise Problem(400, reason, MISSING_VALUE)
    named = frozenset[str]().union(*subtrees)
    if alone := sorted(set(bare) - named):
        reason = "Resourceless suffixed group request should be specified in `same_subtree` query param"
        raise Problem(400, f"{reason}: bad group(s) - {alone}.", BAD_VALUE)
    if unknown := sorted(named - groups.keys()):
        reason = "Real suffixes should be specified in `same_subtree`"
        raise Problem(400, f"{reason}: {unknown} not found in {list(groups)}.", BAD_VALUE)


def _check_orphans(groups: Mapping[str, Wanted], bare: list[str]) -> None:
    """Raises: Problem: 400: a group has no resources, or there is no group."""
    if orphans := [f"required{suffix}" for suffix in bare if groups[suffix].required]:
        reason = "All traits parameters must be associated with resources.  Found the following orphaned traits keys"
        raise Problem(400, f"{reason}: {', '.join(orphans)}")
    if orphans := [f"member_of{suffix}" for suffix in bare if groups[suffix].member_of or groups[suffix].not_member_of]:
        reason = "All member_of parameters must be associated with resources. Found the following orphaned member_of"
        raise Problem(400, f"{reason} keys: {', '.join(orphans)}")
    if bare:
        raise Problem(400, "All request groups must specify resources.")
    if not groups:
        raise Problem(400, "At least one request group (`resources` or `resources{$S}`) is required.")


def _check_traits(groups: Mapping[str, Wanted]) -> None:
    """Raises: Problem: 400: a group forbids what it requires."""
    both = [
        f"required{suffix}: ({', '.join(sorted(some))})"
        for suffix, wanted in groups.items()
        for some in wanted.required
        if some <= wanted.forbidden
    ]
    if both:
        reason = "Conflicting required and forbidden traits found in the following traits keys"
        raise Problem(400, f"{reason}: {', '.join(sorted(both))}")


def _policy(call: Call, groups: Mapping[str, Wanted]) -> Literal["none", "isolate"]:
    said = call.query.get("group_policy")
    if said is None and len(groups.keys() - {UNNAMED}) > 1:
        reason = 'The "group_policy" parameter is required when specifying more than one "resources{N}" parameter.'
        raise Problem(400, reason)
    return "isolate" if said and said[0] == "isolate" else "none"


def _root(call: Call) -> tuple[list[frozenset[str]], frozenset[str]]:
    said = call.query.get("root_required")
    if said is None:
        return [], frozenset()
    if len(said) > 1:
        raise Problem(400, "Query parameter 'root_required' may be specified only once.", DUPLICATE_KEY)
    required, forbidden = plain_traits(call, said[0], "root_required")
    if both := frozenset[str]().union(*required) & forbidden:
        reason = "Conflicting required and forbidden traits found in root_required"
        raise Problem(400, f"{reason}: {', '.join(sorted(both))}", BAD_VALUE)
    return required, forbidden


def _limit(call: Call) -> int | None:
    said = call.query.get("limit")
    return None if said is None else min(int(said[0][:20]), MAX_INT)


async def _check_names(call: Call, found: Request) -> None:
    traits = {name for some in found.root_required for name in some} | found.root_forbidden
    resources: set[str] = set()
    for wanted in found.groups.values():
        resources |= wanted.resources.keys()
        traits |= trait_names(wanted)
    await check_names(call.store, resources, traits)
