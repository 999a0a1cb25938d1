"""Query strings: their keys by version, and the meaning of the values.

Invariant: a key that is unknown at a version is refused. As in Placement, the last of several values of a
single-valued key applies, unless a table or a reader specifies otherwise.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from whimbrel.domain.ids import ProviderId
from whimbrel.http.problem import Problem
from whimbrel.http.schema import Checker, Schema, is_uuid
from whimbrel.placement.resource_names import STANDARD_CLASSES, standard_traits
from whimbrel.placement.search import Wanted
from whimbrel.placement.store import Store
from whimbrel.placement_api.call import Call
from whimbrel.placement_api.schemas import checker

MOST_FIELDS = 500
MOST = 2**63 - 1
INVALID = "Invalid query string parameters"

TEXT: Schema = {"type": "string"}
UUID: Schema = {"type": "string", "format": "dashed-uuid"}
OWNER: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
TYPE: Schema = {**OWNER, "pattern": "^[A-Z0-9_]+$|^all|^unknown$"}
LIMIT: Schema = {"type": "string", "pattern": "^[1-9][0-9]*$"}
POLICY: Schema = {"type": "string", "enum": ["none", "isolate"]}


@dataclass(frozen=True)
class Key:
    since: int = 0
    form: Schema = field(default_factory=lambda: TEXT)
    needed: bool = False
    needed_until: int | None = None  # None: no upper version
    is_of_group: bool = False  # may have a group suffix
    first_holds: bool = False  # the first of several values applies


NUMBERED_SINCE, NAMED_SINCE = 25, 33
NUMBERS, NAMES = "[1-9][0-9]*", "[a-zA-Z0-9_-]{1,64}"
GROUPED = "(resources|required|member_of|in_tree)"
NUMBERED = re.compile(f"{GROUPED}({NUMBERS})")
NAMED = re.compile(f"{GROUPED}({NAMES})")


class Keys:
    """The permitted keys of a query."""

    def __init__(self, keys: Mapping[str, Key]) -> None:
        self._keys = keys
        self._checkers: dict[int, Checker] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._keys

    def read(self, raw: bytes, minor: int) -> dict[str, list[str]]:
        """Parse a query string. Raises: Problem: 400: an unknown or missing key, or a malformed value."""
        try:
            sent = parse_qs(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
        except ValueError:
            raise invalid("It cannot be read.") from None
        if minor not in self._checkers:
            self._checkers[minor] = checker(self._schema(minor), INVALID)
        self._checkers[minor].check({name: values[-1] for name, values in sent.items()})
        for name, values in sent.items():
            if any("\x00" in value for value in values):
                raise invalid(f"The key {name!r} has a NUL character in its value.")
            if len(values) > 1 and name in self._keys and self._keys[name].first_holds:
                self._checkers[minor].check({name: values[0] for name, values in sent.items()})
        return sent

    def _schema(self, minor: int) -> Schema:
        suffix = f"({NAMES if minor >= NAMED_SINCE else NUMBERS})?"
        there = {name: key for name, key in self._keys.items() if key.since <= minor}
        grouped = {name for name, key in there.items() if key.is_of_group and minor >= NUMBERED_SINCE}
        found: dict[str, Any] = {
            "type": "object",
            "properties": {name: key.form for name, key in there.items() if name not in grouped},
            "required": [
                name
                for name, key in there.items()
                if key.needed and (key.needed_until is None or minor <= key.needed_until)
            ],
            "additionalProperties": False,
        }
        if grouped:
            found["patternProperties"] = {f"^{name}{suffix}$": self._keys[name].form for name in sorted(grouped)}
        return found


PROVIDERS = Keys(
    {
        "name": Key(),
        "uuid": Key(form=UUID),
        "member_of": Key(3),
        "resources": Key(4),
        "in_tree": Key(14, UUID),
        "required": Key(18),
    }
)
OF_CANDIDATES = {
    "resources": Key(10, needed=True, needed_until=24, is_of_group=True),
    "limit": Key(16, LIMIT, first_holds=True),
    "required": Key(17, is_of_group=True),
    "member_of": Key(21, is_of_group=True),
    "group_policy": Key(25, POLICY, first_holds=True),
    "in_tree": Key(31, is_of_group=True),
    "root_required": Key(35),
    "same_subtree": Key(36),
}
CANDIDATES = Keys(OF_CANDIDATES)
TRAITS = Keys({"name": Key(), "associated": Key()})
USAGES = Keys({"project_id": Key(form=OWNER, needed=True), "user_id": Key(form=OWNER), "consumer_type": Key(38, TYPE)})


def split(name: str, minor: int) -> tuple[str, str]:
    """Split a key into name and group suffix; both are empty if this version has no such suffix."""
    if minor < NUMBERED_SINCE:
        return "", ""
    match = (NAMED if minor >= NAMED_SINCE else NUMBERED).fullmatch(name)
    return (match[1], match[2]) if match else ("", "")


def invalid(what: str) -> Problem:
    """Return the error of a malformed query; as in Placement it has no code of its own."""
    return Problem(400, f"{INVALID}: {what}")


# Shared by several queries


def group(call: Call, suffix: str = "") -> Wanted:
    """Parse one group; names may be unknown. Raises: Problem: 400: malformed."""
    required, forbidden = _traits(call, f"required{suffix}")
    member_of, not_member_of = _aggregates(call, suffix)
    in_tree = None
    for text in call.query.get(f"in_tree{suffix}", ()):
        in_tree = ProviderId(text.strip())
        if not is_uuid(in_tree):
            raise invalid(f"Expected 'in_tree' parameter to be a format of uuid. {_got(text, f'in_tree{suffix}')}")
    resources: dict[str, int] = {}
    for text in call.query.get(f"resources{suffix}", ()):
        resources = _resources(text)
    return Wanted(
        resources=resources,
        required=required,
        forbidden=forbidden,
        member_of=member_of,
        not_member_of=not_member_of,
        in_tree=in_tree,
    )


def trait_names(wanted: Wanted) -> set[str]:
    return {name for some in wanted.required for name in some} | wanted.forbidden


def _resources(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in text.split(",") if text.strip() else ["empty string"]:
        name, *amounts = part.split(":")
        if len(amounts) != 1:
            form = "Expected resources query string parameter in form: ?resources=VCPU:2,MEMORY_MB:1024"
            raise Problem(400, f"Badly formed resources parameter. {form}. Got: {part[:200]}.")
        found[name] = _amount(name, amounts[0])
    return found


def _amount(name: str, text: str) -> int:
    try:
        amount = int(text)
    except ValueError:
        amount = MOST + 1
    if amount > MOST:
        raise Problem(400, f"Requested resource {name} expected positive integer amount. Got: {text[:40]}.")
    if amount < 1:
        raise Problem(400, f"Requested resource {name} requires amount >= 1. Got: {amount}.")
    return amount


def _traits(call: Call, key: str) -> tuple[list[frozenset[str]], frozenset[str]]:
    texts = call.query.get(key, [])
    required: list[frozenset[str]] = []
    forbidden: frozenset[str] = frozenset()
    for text in texts if call.minor >= 39 else texts[-1:]:
        if text.startswith("in:") and call.minor >= 39:
            required.append(_alternatives(text, key))
        else:
            all_of, none_of = plain_traits(call, text, key)
            required += all_of
            forbidden |= none_of
    return required, forbidden


def _alternatives(text: str, key: str) -> frozenset[str]:
    names = frozenset(name.strip() for name in text.removeprefix("in:").split(","))
    form = "in:HW_CPU_X86_VMX,CUSTOM_MAGIC"
    if "" in names:
        raise invalid(
            f"Expected 'required' parameter value of the form: {form}. Got an empty trait in: {text[:200]} ({key})"
        )
    if any(name.startswith("!") for name in names):
        raise invalid(f"The format {form!r} does not support forbidden traits. {_got(text, key)}")
    return names


def plain_traits(call: Call, text: str, key: str) -> tuple[list[frozenset[str]], frozenset[str]]:
    """Parse a list of required and forbidden traits. Raises: Problem: 400: malformed."""
    if text.startswith("in:"):
        form = "The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' only supported since microversion 1.39"
        raise invalid(f"{form}. {_got(text, key)}")
    names = [name.strip() for name in text.split(",")]
    forbidden = frozenset(name.lstrip("!") for name in names if name.startswith("!"))
    form = "HW_CPU_X86_VMX,!CUSTOM_MAGIC" if call.minor >= 22 else "HW_CPU_X86_VMX,CUSTOM_MAGIC"
    expected = f"Expected 'required' parameter value of the form: {form}."
    if "" in names or "" in forbidden:
        raise invalid(f"{expected} Got an empty trait in: {text[:200]} ({key})")
    if forbidden and call.minor < 22:
        raise invalid(f"{expected} {_got(text, key)}")
    return [frozenset((name,)) for name in names if not name.startswith("!")], forbidden


def _aggregates(call: Call, suffix: str) -> tuple[list[frozenset[str]], frozenset[str]]:
    texts = call.query.get(f"member_of{suffix}", ())
    if len(texts) > 1 and call.minor < 24:
        raise Problem(400, f"Multiple member_of{suffix} parameters are not supported")
    member_of: list[frozenset[str]] = []
    not_member_of: frozenset[str] = frozenset()
    for text in texts:
        is_forbidden = text.startswith("!")
        uuids = _aggregate_uuids(text, f"member_of{suffix}")
        if is_forbidden and call.minor < 32:
            reason = f"Forbidden member_of{suffix} parameters are not supported in the specified microversion"
            raise Problem(400, reason)
        if is_forbidden:
            not_member_of |= uuids
        else:
            member_of.append(uuids)
    return member_of, not_member_of


def _aggregate_uuids(text: str, key: str) -> frozenset[str]:
    plain = text.removeprefix("!")
    if "," in plain and not plain.startswith("in:"):
        form = "must be prefixed with the 'in:' or '!in:' keyword using the valid microversion"
        raise Problem(400, f"Multiple values for 'member_of' {form}. {_got(text, key)}")
    uuids = plain.removeprefix("in:").split(",")
    for uuid in uuids:
        if not is_uuid(uuid):
            raise invalid(f"Expected 'member_of' parameter to contain valid UUID(s). {_got(uuid, key)}")
    return frozenset(uuids)


def _got(text: str, key: str) -> str:
    return f"Got: {text[:200]} ({key})"


async def check_names(store: Store, resources: Iterable[str], traits: set[str], opening: str = "") -> None:
    """Raises: Problem: 400: unknown class or trait. opening: prefix of the sentence about an unknown trait."""
    unknown = set(resources) - set(STANDARD_CLASSES)
    if unknown and (unknown := unknown - await store.known_classes(unknown)):
        name = sorted(unknown)[0]
        raise Problem(400, f"Invalid resource class in resources parameter: No such resource class {name[:300]}.")
    if traits and (strange := traits - standard_traits()) and (strange := strange - await store.known_traits(strange)):
        raise Problem(400, f"{opening}No such trait(s): {', '.join(sorted(strange))[:300]}.")
