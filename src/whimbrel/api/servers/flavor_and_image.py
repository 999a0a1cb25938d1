"""Flavors and images in requests, and their consistency."""

from collections.abc import Mapping

from whimbrel.api.http.call import Call
from whimbrel.api.schemas.parameters import truth_of_word
from whimbrel.domain.errors import Forbidden, Invalid, NotFound
from whimbrel.domain.flavor import Flavor
from whimbrel.ports.services.images import Image

GIB = 1 << 30


async def flavor(call: Call, ref: str | int) -> Flavor:
    """Return a flavor by its id or URL. Raises: Invalid: not found, or not visible to the requester."""
    flavor_id = last_part(str(ref))
    try:
        found = await call.cloud.flavors.get(flavor_id)
    except NotFound:
        raise _no_flavor(flavor_id) from None
    if found.disabled or not await _is_visible(call, found):
        raise _no_flavor(flavor_id)
    return found


async def image(call: Call, image_id: str) -> Image:
    """Return an image by its id. Raises: Invalid: not found, not visible to the requester, or not ready."""
    own = call.own_images
    try:
        found = await (own or call.cloud.images).show(image_id)
    except NotFound:
        raise _no_image(image_id) from None
    if own is None and not _may_use(call, found):
        raise _no_image(image_id)
    if found.status != "active":
        raise Invalid(f"Image {image_id} is not active: it is {found.status}.")
    return found


def _may_use(call: Call, image: Image) -> bool:
    shared = image.visibility in ("public", "community") or image.owner is None
    return shared or image.owner == call.principal.project_id or call.is_admin


def check_fit(call: Call, size: Flavor, source: Image) -> None:
    """Raises: Invalid: the image needs more than the flavor has; Forbidden: a flavor without a disk."""
    if size.memory_mib < source.min_ram_mib:
        raise Invalid(f"The flavor's memory is too small for the image: {source.min_ram_mib} MiB are needed.")
    if size.root_gib == 0:
        if not call.may("os_compute_api:servers:create:zero_disk_flavor"):
            raise Forbidden("Only volume-backed servers are allowed for flavors with zero disk.")
        return
    if size.root_gib < source.min_disk_gib:
        raise Invalid(f"The flavor's disk is too small for the image: {source.min_disk_gib} GiB are needed.")
    if size.root_gib * GIB < source.size_bytes:
        raise Invalid(f"The flavor's disk is too small for the image: it has {source.size_bytes} bytes.")


def check_growth(old: Flavor, new: Flavor) -> None:
    """Raises: Invalid: the root disk would shrink.

    Nova detects this on the host, with the guest stopped; here it is checked before the guest is stopped.
    """
    if new.root_gib < old.root_gib:
        raise Invalid(f"A disk cannot shrink: the server has {old.root_gib} GiB, the flavor {new.root_gib}.")


def disk_config(requested: str | None, image_id: str, properties: Mapping[str, str]) -> str:
    """Return OS-DCF:diskConfig: the requested one, else that of the image. Raises: Invalid: the image forbids AUTO."""
    of_image = properties.get("auto_disk_config", "").strip().lower()
    if requested == "AUTO" and of_image == "disabled":
        raise Invalid(f"Requested image {image_id} has automatic disk resize disabled.")
    return requested or ("AUTO" if truth_of_word(of_image) else "MANUAL")


def last_part(ref: str) -> str:
    """Return the id in a reference that may be a URL."""
    return ref.rstrip("/").rsplit("/", 1)[-1]


async def _is_visible(call: Call, found: Flavor) -> bool:
    if found.is_public or call.is_admin:
        return True
    return call.principal.project_id in await call.cloud.flavors.projects(found.flavor_id)


def _no_flavor(flavor_id: str) -> Invalid:
    return Invalid(f"Flavor {flavor_id} could not be found.")


def _no_image(image_id: str) -> Invalid:
    return Invalid(f"Image {image_id} could not be found.")
