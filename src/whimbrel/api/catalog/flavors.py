"""Flavors: the sizes of servers. Users see public flavors and those to which their project has access.

Source: reference of Nova 34, section 2.4.
"""

from collections.abc import Callable, Mapping
from typing import Any

from whimbrel.api.http import paging
from whimbrel.api.http.call import Call
from whimbrel.api.schemas.parameters import LARGEST, truth
from whimbrel.domain.errors import Invalid, NotFound
from whimbrel.domain.flavor import Flavor

SHOWS_SPECS = "os_compute_api:os-flavor-extra-specs:index"

# Sort keys of flavors; Nova's other keys are the same for all flavors or follow the order of creation.
_SORT: Mapping[str, Callable[[Flavor], Any]] = {
    "flavorid": lambda flavor: flavor.flavor_id,
    "name": lambda flavor: flavor.name,
    "memory_mb": lambda flavor: flavor.memory_mib,
    "vcpus": lambda flavor: flavor.vcpus,
    "root_gb": lambda flavor: flavor.root_gib,
    "ephemeral_gb": lambda flavor: flavor.ephemeral_gib,
    "swap": lambda flavor: flavor.swap_mib,
    "rxtx_factor": lambda flavor: flavor.rxtx_factor,
    "disabled": lambda flavor: flavor.disabled,
    "is_public": lambda flavor: flavor.is_public,
    "description": lambda flavor: flavor.description or "",
    **dict.fromkeys(("id", "created_at", "updated_at", "vcpu_weight"), lambda flavor: 0),
}


async def find(call: Call, flavor_id: str) -> Flavor:
    """Return a flavor that is visible to the requester. Raises: NotFound."""
    flavors = call.cloud.flavors
    flavor = await flavors.get(flavor_id)
    if flavor.is_public or call.is_admin or await flavors.has_access(flavor_id, call.principal.project_id):
        return flavor
    raise NotFound(f"Flavor {flavor_id} could not be found.")


async def index(call: Call) -> Any:
    return await _page(call, _brief)


async def detail(call: Call) -> Any:
    with_specs = call.may(SHOWS_SPECS)
    return await _page(call, lambda call, flavor: _full(call, flavor, with_specs))


async def show(call: Call) -> Any:
    return _alone(call, await find(call, call.params["flavor_id"]))


async def create(call: Call) -> Any:
    wanted = call.body["flavor"]
    flavor_id = wanted.get("id")
    flavor = Flavor(
        flavor_id=call.cloud.ids.uuid() if flavor_id is None else str(flavor_id),
        name=wanted["name"],
        vcpus=int(wanted["vcpus"]),
        memory_mib=int(wanted["ram"]),
        root_gib=int(wanted["disk"]),
        ephemeral_gib=int(wanted.get("OS-FLV-EXT-DATA:ephemeral", 0)),
        swap_mib=int(wanted.get("swap", 0)),
        rxtx_factor=_factor(wanted.get("rxtx_factor", 1.0)),
        is_public=truth(wanted.get("os-flavor-access:is_public", True)),
        description=wanted.get("description"),
    )
    await call.cloud.flavors.create(flavor, call.cloud.clock.now())
    return _alone(call, flavor)


async def update(call: Call) -> Any:
    description = call.body["flavor"]["description"]
    return _alone(call, await call.cloud.flavors.update(call.params["flavor_id"], description))


async def delete(call: Call) -> Any:
    await call.cloud.flavors.delete(call.params["flavor_id"])


def _factor(value: str | float) -> float:
    factor = float(value)
    if factor <= 0:
        raise Invalid("Invalid input for flavor.rxtx_factor: it must be greater than 0.")
    return factor


# Lists


async def _page(call: Call, shown: Callable[[Call, Flavor], dict[str, Any]]) -> dict[str, Any]:
    limit, fits = paging.limit(call), _filter(call)
    visible = paging.after_marker(call, await _visible(call), lambda flavor: flavor.flavor_id)
    found = [flavor for flavor in visible if fits(flavor)][:limit]
    answer: dict[str, Any] = {"flavors": [shown(call, flavor) for flavor in found]}
    links = paging.next_link(call, len(found), found[-1].flavor_id if found else None)
    if links:
        answer["flavors_links"] = links
    return answer


async def _visible(call: Call) -> list[Flavor]:
    """Return the flavors that are visible in this list, sorted."""
    public = _wanted_visibility(call)
    granted = await call.cloud.flavors.granted(call.principal.project_id)
    found = [
        flavor
        for flavor in await call.cloud.flavors.all()
        if public is None or flavor.is_public == public or (public and flavor.flavor_id in granted)
        if call.is_admin or not flavor.disabled
    ]
    key, direction = call.value("sort_key") or "flavorid", call.value("sort_dir") or "asc"
    if key not in _SORT or (key == "rxtx_factor" and call.minor >= 102):
        raise Invalid(f"Sort key supplied is invalid: {key[:100]}")
    if direction not in ("asc", "desc"):
        raise Invalid(f"Sort direction supplied is invalid: {direction[:100]}")
    if key != "id" and key != "created_at":
        found.sort(key=lambda flavor: flavor.flavor_id)
    found.sort(key=_SORT[key])
    return found if direction == "asc" else found[::-1]


def _wanted_visibility(call: Call) -> bool | None:
    """Read is_public: administrators may request private flavors, or all with `none`; it is ignored for others."""
    text = call.value("is_public")
    if not call.is_admin or text is None:
        return True
    word = text.lower()
    if word == "none":
        return None
    if word in ("1", "true", "on", "yes", "y", "t"):
        return True
    if word in ("0", "false", "off", "no", "n", "f"):
        return False
    raise Invalid(f"Invalid is_public filter [{text[:100]}]")


def _filter(call: Call) -> Callable[[Flavor], bool]:
    memory_mib, root_gib, name = _least(call, "minRam"), _least(call, "minDisk"), call.value("name")
    return lambda flavor: (
        flavor.memory_mib >= memory_mib and flavor.root_gib >= root_gib and (name is None or flavor.name == name)
    )


def _least(call: Call, key: str) -> int:
    text = call.value(key)
    if text is None:
        return 0
    digits = text.strip().removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > len(str(LARGEST)):
        raise Invalid(f"Invalid {key} filter [{text[:100]}]")
    return int(text)


# Representation


def _brief(call: Call, flavor: Flavor) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": flavor.flavor_id,
        "name": flavor.name,
        "links": call.links("flavors", flavor.flavor_id),
    }
    if call.minor >= 55:
        shown["description"] = flavor.description
    return shown


def _full(call: Call, flavor: Flavor, with_specs: bool) -> dict[str, Any]:
    shown = _brief(call, flavor) | {
        "ram": flavor.memory_mib,
        "disk": flavor.root_gib,
        "vcpus": flavor.vcpus,
        "swap": flavor.swap_mib if flavor.swap_mib or call.minor >= 75 else "",
        "OS-FLV-EXT-DATA:ephemeral": flavor.ephemeral_gib,
        "os-flavor-access:is_public": flavor.is_public,
    }
    if call.minor < 102:
        shown |= {"OS-FLV-DISABLED:disabled": flavor.disabled, "rxtx_factor": flavor.rxtx_factor}
    if call.minor >= 61 and with_specs:
        shown["extra_specs"] = flavor.extra_specs
    return shown


def _alone(call: Call, flavor: Flavor) -> dict[str, Any]:
    return {"flavor": _full(call, flavor, call.may(SHOWS_SPECS))}
