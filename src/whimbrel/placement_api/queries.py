"""Query strings: which keys there are at which version, and what their values mean.

Law: a key that is not known at a version is refused, and so is one that comes twice where it has one value.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

import msgspec

from whimbrel.domain.ids import ProviderId
from whimbrel.placement.names import STANDARD_CLASSES, standard_traits
from whimbrel.placement.search import Wanted
from whimbrel.placement.store import Store
from whimbrel.placement_api.bodies import is_uuid
from whimbrel.placement_api.call import Call
from whimbrel.placement_api.problems import BAD_VALUE, DUPLICATE_KEY, Problem

MOST_FIELDS = 500


class Key(msgspec.Struct, frozen=True):
    """A key of a query string."""

    since: int = 0
    needed: bool = False
    repeats_since: int | None = None  # None: it never does


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
    "resources": Key(10, needed=True),
    "limit": Key(16),
    "required": Key(17, repeats_since=39),
    "member_of": Key(21, repeats_since=24),
    "group_policy": Key(25),
    "in_tree": Key(31),
}
TRAITS = {"name": Key(), "associated": Key()}
USAGES = {"project_id": Key(needed=True), "user_id": Key(), "consumer_type": Key(38)}


def read(raw: bytes, keys: Mapping[str, Key], minor: int) -> dict[str, list[str]]:
    """Take a query string apart. Raises: Problem: 400: an unknown, missing or repeated key."""
    try:
        sent = parse_qs(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except ValueError:
        raise _invalid("it cannot be read") from None
    for name, values in sent.items():
        key = keys.get(name)
        if key is None or key.since > minor:
            raise _invalid(f"the key {name!r} is not known here at version 1.{minor}")
        if len(values) > 1 and (key.repeats_since is None or key.repeats_since > minor):
            raise _invalid(f"the key {name!r} may be there once only", DUPLICATE_KEY)
        if any("\x00" in value for value in values):
            raise _invalid(f"the key {name!r} has a NUL character in its value")
    for name, key in keys.items():
        if key.needed and key.since <= minor and name not in sent:
            raise _invalid(f"the key {name!r} is missing", "placement.query.missing_value")
    return sent


def _invalid(what: str, code: str = BAD_VALUE) -> Problem:
    return Problem(400, f"Invalid query string parameters: {what}.", code)


# What several queries have


async def wanted(call: Call) -> Wanted:
    """Read resources, required, member_of and in_tree. Raises: Problem: 400: malformed, or unknown names."""
    resources = _resources(call.value("resources"))
    required, forbidden = _traits(call)
    member_of, not_member_of = _aggregates(call)
    await _check_names(call.store, resources, {name for some in required for name in some} | forbidden)
    in_tree = call.value("in_tree")
    if in_tree is not None:
        in_tree = checked_uuid("in_tree", in_tree)
    return Wanted(
        resources=resources,
        required=required,
        forbidden=forbidden,
        member_of=member_of,
        not_member_of=not_member_of,
        in_tree=ProviderId(in_tree) if in_tree else None,
    )


def checked_uuid(name: str, text: str) -> str:
    """Raises: Problem: 400: it is no uuid."""
    if not is_uuid(text):
        raise _invalid(f"expected {name!r} to contain valid UUIDs, got {text!r}")
    return text.lower()


def _resources(text: str | None) -> dict[str, int]:
    if text is None:
        return {}
    found: dict[str, int] = {}
    for part in text.split(","):
        name, colon, amount = part.partition(":")
        if not name or not colon:
            form = "?resources=VCPU:2,MEMORY_MB:1024"
            raise Problem(400, f"Badly formed resources parameter. Expected {form}. Got: {part!r}", BAD_VALUE)
        if not (amount.isascii() and amount.isdigit() and len(amount) < 20 and int(amount) >= 1):
            reason = f"Requested resource {name} expected a positive integer amount. Got: {amount[:40]!r}."
            raise Problem(400, reason, BAD_VALUE)
        found[name] = int(amount)
    return found


def _traits(call: Call) -> tuple[list[frozenset[str]], frozenset[str]]:
    required: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for text in call.query.get("required", ()):
        if text.startswith("in:") and call.minor >= 39:
            required.append(frozenset(_trait(call, name, text) for name in text[3:].split(",")))
            continue
        for name in text.split(","):
            if name.strip().startswith("!") and call.minor >= 22:
                forbidden.add(_trait(call, name.strip()[1:], text))
            else:
                required.append(frozenset((_trait(call, name, text),)))
    if both := _sure(required) & forbidden:
        raise _invalid(f"the traits {', '.join(sorted(both))} are required and forbidden at once")
    return required, frozenset(forbidden)


def _sure(required: Sequence[frozenset[str]]) -> set[str]:
    """List the traits that have no alternative."""
    return {name for some in required if len(some) == 1 for name in some}


def _trait(call: Call, name: str, text: str) -> str:
    name = name.strip()
    if not name or name.startswith(("!", "in:")):
        form = "HW_CPU_X86_VMX,!CUSTOM_MAGIC" if call.minor >= 22 else "HW_CPU_X86_VMX,CUSTOM_MAGIC"
        raise _invalid(f"expected 'required' parameter value of the form: {form}. Got: {text[:200]!r}")
    return name


def _aggregates(call: Call) -> tuple[list[frozenset[str]], frozenset[str]]:
    member_of: list[frozenset[str]] = []
    not_member_of: frozenset[str] = frozenset()
    for text in call.query.get("member_of", ()):
        negative = text.startswith("!")
        if negative and call.minor < 32:
            raise _invalid("forbidden member_of parameters are not supported at this version")
        plain = text.removeprefix("!")
        if "," in plain and not plain.startswith("in:"):
            raise _invalid(f"multiple values for 'member_of' must be prefixed with 'in:'. Got: {text[:200]!r}")
        uuids = frozenset(checked_uuid("member_of", uuid) for uuid in plain.removeprefix("in:").split(","))
        if negative:
            not_member_of |= uuids
        else:
            member_of.append(uuids)
    return member_of, not_member_of


async def _check_names(store: Store, resources: Mapping[str, Any], traits: set[str]) -> None:
    unknown = resources.keys() - set(STANDARD_CLASSES)
    if unknown and (unknown := unknown - set(await store.resource_classes())):
        name = sorted(unknown)[0]
        raise Problem(400, f"Invalid resource class in resources parameter: No such resource class {name}.")
    if traits and (strange := traits - standard_traits()) and (strange := strange - set(await store.traits())):
        raise Problem(400, f"No such trait(s): {', '.join(sorted(strange))}.")
