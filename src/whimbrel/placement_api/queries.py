"""Query strings: which keys there are at which version, and what their values mean.

Law: a key that is not known at a version is refused, and so is one that comes twice where it has one value.
"""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qs

import msgspec

from whimbrel.domain.ids import ProviderId
from whimbrel.placement.names import STANDARD_CLASSES, standard_traits
from whimbrel.placement.search import Wanted
from whimbrel.placement.store import Store
from whimbrel.placement_api.bodies import is_uuid
from whimbrel.placement_api.call import Call
from whimbrel.placement_api.problems import DUPLICATE_KEY, Problem

MOST_FIELDS = 500


class Key(msgspec.Struct, frozen=True):
    """A key of a query string."""

    since: int = 0
    needed: bool = False
    needed_until: int | None = None  # None: always, if it is
    repeats_since: int | None = None  # None: it never does
    is_of_group: bool = False  # it may have the suffix of a group


NUMBERED_SINCE, NAMED_SINCE = 25, 33
NUMBERED = re.compile(r"(resources|required|member_of|in_tree)([1-9][0-9]*)")
NAMED = re.compile(r"(resources|required|member_of|in_tree)([A-Za-z0-9_-]{1,64})")

NO_KEYS: Mapping[str, Key] = {}
PROVIDERS = {
    "name": Key(),
    "uuid": Key(),
    "member_of": Key(3, repeats_since=24),
    "resources": Key(4),
    "in_tree": Key(14),
    "required": Key(18, repeats_since=39),
}
CANDIDATES = {
    "resources": Key(10, needed=True, needed_until=24, is_of_group=True),
    "limit": Key(16),
    "required": Key(17, repeats_since=39, is_of_group=True),
    "member_of": Key(21, repeats_since=24, is_of_group=True),
    "group_policy": Key(25, repeats_since=25),  # the first one holds
    "in_tree": Key(31, is_of_group=True),
    "root_required": Key(35),
    "same_subtree": Key(36, repeats_since=36),
}
TRAITS = {"name": Key(), "associated": Key()}
USAGES = {"project_id": Key(needed=True), "user_id": Key(), "consumer_type": Key(38)}


def read(raw: bytes, keys: Mapping[str, Key], minor: int) -> dict[str, list[str]]:
    """Take a query string apart. Raises: Problem: 400: an unknown, missing or repeated key."""
    try:
        sent = parse_qs(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except ValueError:
        raise invalid("it cannot be read") from None
    for name, values in sent.items():
        key = keys.get(name) or keys.get(split(name, minor)[0])
        if key is None or key.since > minor or not (name in keys or key.is_of_group):
            raise invalid(f"the key {name!r} is not known here at version 1.{minor}")
        if len(values) > 1 and (key.repeats_since is None or key.repeats_since > minor):
            raise Problem(400, f"Query parameter {name!r} may be specified only once.", DUPLICATE_KEY)
        if any("\x00" in value for value in values):
            raise invalid(f"the key {name!r} has a NUL character in its value")
    for name, key in keys.items():
        if key.needed and key.since <= minor <= (key.needed_until or minor) and name not in sent:
            raise invalid(f"the key {name!r} is missing")
    return sent


def split(name: str, minor: int) -> tuple[str, str]:
    """Take the suffix of its group off a key; nothing of both: it has none that this version knows."""
    if minor < NUMBERED_SINCE:
        return "", ""
    match = (NAMED if minor >= NAMED_SINCE else NUMBERED).fullmatch(name)
    return (match[1], match[2]) if match else ("", "")


def invalid(what: str) -> Problem:
    """Give what is wrong with the form of a query; as in Placement it has no code of its own."""
    return Problem(400, f"Invalid query string parameters: {what}.")


# What several queries have


async def wanted(call: Call) -> Wanted:
    """Read resources, required, member_of and in_tree. Raises: Problem: 400: malformed, or unknown names."""
    found = group(call)
    await check_names(call.store, found.resources, trait_names(found))
    return found


def group(call: Call, suffix: str = "") -> Wanted:
    """Read what one group wants, whether the names are known or not. Raises: Problem: 400: malformed."""
    required, forbidden = _traits(call, f"required{suffix}")
    member_of, not_member_of = _aggregates(call, f"member_of{suffix}")
    in_tree = call.value(f"in_tree{suffix}")
    if in_tree is not None:
        in_tree = checked_uuid(f"in_tree{suffix}", in_tree.strip())
    return Wanted(
        resources=_resources(call.value(f"resources{suffix}")),
        required=required,
        forbidden=forbidden,
        member_of=member_of,
        not_member_of=not_member_of,
        in_tree=ProviderId(in_tree) if in_tree else None,
    )


def trait_names(wanted: Wanted) -> set[str]:
    return {name for some in wanted.required for name in some} | wanted.forbidden


def checked_uuid(name: str, text: str) -> str:
    """Raises: Problem: 400: it is no uuid."""
    if not is_uuid(text):
        raise invalid(f"expected {name!r} to contain valid UUIDs, got {text!r}")
    return text.lower()


def _resources(text: str | None) -> dict[str, int]:
    if text is None:
        return {}
    found: dict[str, int] = {}
    for part in text.split(",") if text.strip() else ["empty string"]:
        name, colon, amount = part.partition(":")
        if not name or not colon:
            form = "?resources=VCPU:2,MEMORY_MB:1024"
            raise Problem(400, f"Badly formed resources parameter. Expected {form}. Got: {part!r}")
        if not (amount.isascii() and amount.isdigit() and len(amount) < 20 and int(amount) >= 1):
            reason = f"Requested resource {name} expected a positive integer amount. Got: {amount[:40]!r}."
            raise Problem(400, reason)
        found[name] = int(amount)
    return found


def _traits(call: Call, key: str) -> tuple[list[frozenset[str]], frozenset[str]]:
    required: list[frozenset[str]] = []
    forbidden: frozenset[str] = frozenset()
    for text in call.query.get(key, ()):
        if text.startswith("in:") and call.minor >= 39:
            required.append(frozenset(_trait(call, name, text) for name in text[3:].split(",")))
        else:
            all_of, none_of = plain_traits(call, text)
            required += all_of
            forbidden |= none_of
    if both := [some for some in required if some <= forbidden]:
        names = ", ".join(sorted({name for some in both for name in some}))
        raise invalid(f"Conflicting required and forbidden traits found in the following traits keys: {key}: ({names})")
    return required, forbidden


def plain_traits(call: Call, text: str) -> tuple[list[frozenset[str]], frozenset[str]]:
    """Read a list of traits and forbidden ones. Raises: Problem: 400: malformed."""
    required, forbidden = [], set()
    for name in text.split(","):
        name = name.strip()
        if name.startswith("!") and call.minor >= 22:
            forbidden.add(_trait(call, name.lstrip("!"), text))
        else:
            required.append(frozenset((_trait(call, name, text),)))
    return required, frozenset(forbidden)


def _trait(call: Call, name: str, text: str) -> str:
    name = name.strip()
    if not name or name.startswith(("!", "in:")):
        form = "HW_CPU_X86_VMX,!CUSTOM_MAGIC" if call.minor >= 22 else "HW_CPU_X86_VMX,CUSTOM_MAGIC"
        raise invalid(f"Expected 'required' parameter value of the form: {form}. Got: {text[:200]!r}")
    return name


def _aggregates(call: Call, key: str) -> tuple[list[frozenset[str]], frozenset[str]]:
    member_of: list[frozenset[str]] = []
    not_member_of: frozenset[str] = frozenset()
    for text in call.query.get(key, ()):
        negative = text.startswith("!")
        if negative and call.minor < 32:
            raise invalid("forbidden member_of parameters are not supported at this version")
        plain = text.removeprefix("!")
        if "," in plain and not plain.startswith("in:"):
            raise invalid(f"multiple values for {key!r} must be prefixed with 'in:'. Got: {text[:200]!r}")
        uuids = frozenset(checked_uuid(key, uuid) for uuid in plain.removeprefix("in:").split(","))
        if negative:
            not_member_of |= uuids
        else:
            member_of.append(uuids)
    return member_of, not_member_of


async def check_names(store: Store, resources: Iterable[str], traits: set[str]) -> None:
    """Raises: Problem: 400: there is no such class or trait."""
    unknown = set(resources) - set(STANDARD_CLASSES)
    if unknown and (unknown := unknown - set(await store.resource_classes())):
        name = sorted(unknown)[0]
        raise Problem(400, f"Invalid resource class in resources parameter: No such resource class {name}.")
    if traits and (strange := traits - standard_traits()) and (strange := strange - set(await store.traits())):
        raise Problem(400, f"No such trait(s): {', '.join(sorted(strange))}.")
