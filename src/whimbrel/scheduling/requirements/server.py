"""The request of a server to Placement: flavor, extra specs, image properties and ports in one request.

Invariant: an invalid option is refused with the name of its key; no request is dropped.
Source: Nova's ResourceRequest, and the names of its extra specs and image properties.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec
import os_resource_classes
from msgspec.structs import replace

from whimbrel.domain.errors import Invalid
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.ports.placement.assignments import Group, ResourceRequest
from whimbrel.ports.placement.placement import DISABLED
from whimbrel.scheduling.requirements.cpus import HYPERTHREADING, Cpus, cpus_of
from whimbrel.scheduling.requirements.features import features_of
from whimbrel.scheduling.requirements.hardware_options import Options
from whimbrel.scheduling.requirements.numa import nodes_of

_KEY = re.compile(r"(resources|trait)([a-zA-Z0-9_-]{1,64})?:(.*)", re.DOTALL)
_SUBTREE = re.compile(r"same_subtree[a-zA-Z0-9_-]{0,64}")
_TRAIT = re.compile(r"[A-Z0-9_]{1,255}")
_IMAGE_TRAIT = "trait:"
UNNAMED = ""


class _GroupSpecs(msgspec.Struct):
    """The extra specs of one group."""

    resources: dict[str, int] = {}
    required: list[str] = []
    forbidden: list[str] = []


def resource_request(
    flavor: Flavor,
    properties: Mapping[str, str],
    groups: Sequence[Group] = (),
    same_subtree: Sequence[tuple[str, ...]] = (),
    *,
    has_local_root: bool = True,
    disk_format: str | None = None,
    rules: SchedulerRules | None = None,
    of_host: Iterable[str] = (),
) -> ResourceRequest:
    """Build the request. properties: the image's. groups, same_subtree: from ports.
    disk_format: of the image to copy to the host, if any. of_host: additional traits of the host.
    Raises: Invalid: an extra spec or a property is wrong, or contradicts another one.
    """
    given = (flavor, dict(properties), groups, same_subtree, has_local_root, disk_format, rules, tuple(of_host))
    key = _encode(given)
    if key not in _built:
        if len(_built) >= MOST_BUILT:
            _built.clear()
        _built[key] = _request(*given)
    return _built[key]


_encode = msgspec.msgpack.Encoder().encode
MOST_BUILT = 1000
_built: dict[bytes, ResourceRequest] = {}
"""Requests by all that they were built from: most servers are of a few flavors and images."""


def _request(
    flavor: Flavor,
    properties: Mapping[str, str],
    groups: Sequence[Group],
    same_subtree: Sequence[tuple[str, ...]],
    has_local_root: bool,
    disk_format: str | None,
    rules: SchedulerRules | None,
    of_host: Iterable[str],
) -> ResourceRequest:
    rules = rules or SchedulerRules()
    by_group = _specs_by_group(flavor.extra_specs)
    asked: Counter[str] = sum((Counter(one.resources) for one in by_group.values()), Counter())
    cpus = cpus_of(Options(flavor.extra_specs, properties), flavor.vcpus, asked)
    _check_threads(by_group, properties, cpus)
    nodes_of(flavor, properties)
    features = features_of(flavor.extra_specs, properties, disk_format if has_local_root else None, rules)
    own = by_group.pop(UNNAMED, _GroupSpecs())
    named = _named(by_group, flavor.extra_specs)
    resources = ResourceRequest(
        own=_amounts(
            flavor, own, [one.resources for one in by_group.values()], cpus, features.resources, has_local_root
        ),
        required=_once([*own.required, *_of_image(properties), *cpus.required, *features.required]),
        forbidden=frozenset(own.forbidden) | cpus.forbidden,
        root_required=_once([*features.root_required, *of_host]),
        root_forbidden=frozenset({DISABLED}),
        groups=(*named, *groups),
        group_policy=_policy(flavor.extra_specs, len(named), len(groups)),
        same_subtree=(*_among(named, _subtrees(flavor.extra_specs, by_group)), *same_subtree),
    )
    _check(resources)
    if not cpus.all_dedicated or rules.disable_fallback_pcpu_query:
        return resources
    return replace(resources, otherwise=_with_shared(resources, flavor))


def _with_shared(resources: ResourceRequest, flavor: Flavor) -> ResourceRequest:
    """Return the fallback for clouds without dedicated CPUs."""
    others = {name: amount for name, amount in resources.own.items() if name != os_resource_classes.PCPU}
    return replace(
        resources,
        own={os_resource_classes.VCPU: flavor.vcpus, **others},
        required=tuple(trait for trait in resources.required if trait != HYPERTHREADING),
        forbidden=resources.forbidden - {HYPERTHREADING},
    )


# Extra specs


def _specs_by_group(specs: Mapping[str, str]) -> dict[str, _GroupSpecs]:
    """Read `resources` and `trait` keys by the suffix of their group."""
    by_group: dict[str, _GroupSpecs] = {}
    for key, value in specs.items():
        if not (found := _KEY.fullmatch(key)):
            continue
        kind, suffix, name = found.groups()
        group = by_group.setdefault(suffix or UNNAMED, _GroupSpecs())
        if kind == "resources":
            group.resources[_class(key, name)] = _amount(key, value)
        elif value not in ("required", "forbidden"):
            raise Invalid(f"Flavor extra spec '{key}' cannot be '{value}': it is 'required' or 'forbidden'.")
        else:
            (group.required if value == "required" else group.forbidden).append(_trait(key, name))
    return by_group


def _class(key: str, name: str) -> str:
    if name in os_resource_classes.STANDARDS or (os_resource_classes.is_custom(name) and _TRAIT.fullmatch(name)):
        return name
    raise Invalid(f"Flavor extra spec '{key}': there is no resource class '{name}'.")


def _amount(key: str, value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,10}", value):
        raise Invalid(f"Flavor extra spec '{key}' cannot be '{value}': it is a whole number.")
    return int(value)


def _trait(key: str, name: str) -> str:
    if _TRAIT.fullmatch(name):
        return name
    raise Invalid(f"'{key}': there is no trait '{name}'; traits are written in capitals, digits and underscores.")


def _named(by_group: Mapping[str, _GroupSpecs], specs: Mapping[str, str]) -> list[Group]:
    together = {name for some in _subtrees(specs, by_group) for name in some}
    groups = []
    for suffix, one in by_group.items():
        resources = {name: amount for name, amount in one.resources.items() if amount}
        if not resources and not (one.required or one.forbidden):
            continue
        if not resources and suffix not in together:
            raise Invalid(
                f"Flavor extra specs 'trait{suffix}:...' need 'resources{suffix}:...': what is to have the trait."
            )
        group = Group(id=suffix, resources=resources, required=tuple(one.required), forbidden=frozenset(one.forbidden))
        groups.append(group)
    return groups


def _subtrees(specs: Mapping[str, str], by_group: Mapping[str, _GroupSpecs]) -> list[tuple[str, ...]]:
    """Read `same_subtree: _A,_B`; the suffix of the key distinguishes several."""
    found = []
    for key in (key for key in specs if _SUBTREE.fullmatch(key)):
        some = tuple(name.strip() for name in specs[key].split(","))
        for name in some:
            if name not in by_group:
                raise Invalid(f"Flavor extra spec '{key}': there is no 'resources{name}:...'.")
        found.append(some)
    return found


def _among(groups: Iterable[Group], subtrees: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Remove groups that an amount of 0 removed."""
    ids = {group.id for group in groups}
    left = (tuple(name for name in some if name in ids) for some in subtrees)
    return [some for some in left if some]


def _policy(specs: Mapping[str, str], of_flavor: int, of_ports: int) -> Literal["none", "isolate"]:
    policy = specs.get("group_policy")
    if policy not in (None, "none", "isolate"):
        raise Invalid(f"Flavor extra spec 'group_policy' cannot be '{policy}': it is 'none' or 'isolate'.")
    if policy is None and of_flavor > 1:
        raise Invalid(
            "A flavor with several groups of resources needs the extra spec 'group_policy': 'isolate' for a device of"
            " its own for each, or 'none'."
        )
    return "isolate" if policy == "isolate" else "none"


# Amounts of any provider


def _amounts(
    flavor: Flavor,
    own: _GroupSpecs,
    named: Iterable[Mapping[str, int]],
    cpus: Cpus,
    features: Mapping[str, int],
    has_local_root: bool,
) -> dict[str, int]:
    """Add the flavor's sizes, except for classes that a group mentions, even with 0."""
    amounts = {**own.resources, **cpus.resources}
    mentioned = amounts.keys() | {name for some in named for name in some}
    if os_resource_classes.PCPU in mentioned:
        mentioned |= {os_resource_classes.VCPU}
    for name, amount in flavor.resources(has_local_root).items():
        if name not in mentioned:
            amounts[name] = amount
    amounts |= features
    return {name: amount for name, amount in amounts.items() if amount}


def _of_image(properties: Mapping[str, str]) -> list[str]:
    traits = []
    for key, value in properties.items():
        if key.startswith(_IMAGE_TRAIT):
            if value != "required":
                raise Invalid(f"Image property '{key}' cannot be '{value}': an image can have a trait 'required' only.")
            traits.append(_trait(key, key.removeprefix(_IMAGE_TRAIT)))
    listed = properties.get("traits_required", "").split(",")
    return traits + [_trait("traits_required", name.strip()) for name in listed if name.strip()]


def _check_threads(by_group: Mapping[str, _GroupSpecs], properties: Mapping[str, str], cpus: Cpus) -> None:
    by_policy = HYPERTHREADING in cpus.required or HYPERTHREADING in cpus.forbidden
    by_trait = any(HYPERTHREADING in (*one.required, *one.forbidden) for one in by_group.values())
    if by_policy and (by_trait or HYPERTHREADING in _of_image(properties)):
        raise Invalid(f"'trait:{HYPERTHREADING}' and 'cpu_thread_policy' cannot be had together.")


def _check(resources: ResourceRequest) -> None:
    """Raises: Invalid: the request is empty, or a required trait is forbidden."""
    if not (resources.own or resources.groups):
        raise Invalid("The flavor's extra specs 'resources:...=0' take away everything: a server must take something.")
    for name in (*resources.required, *resources.root_required):
        if name in resources.forbidden or name in resources.root_forbidden:
            raise Invalid(f"Trait {name} is forbidden by the flavor, and asked for by its extra specs or the image.")


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
