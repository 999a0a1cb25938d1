"""The block devices of a POST: their sources, the boot device, and whether the request is possible.

Invariant: a device that cannot be provided exactly as requested is refused with the reason.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from whimbrel.api.http.call import Call
from whimbrel.api.servers import block_devices, flavor_and_image
from whimbrel.api.servers.block_devices import Device
from whimbrel.domain.errors import Invalid, NotFound
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.guest_hardware import DiskBus
from whimbrel.domain.server_devices import RequestedVolume
from whimbrel.ports.services.images import Image
from whimbrel.ports.services.volumes import Volume

MULTIATTACH = 60
"""The first minor version in which a volume may be attached more than once."""


class Disks(msgspec.Struct, frozen=True, kw_only=True):
    """The requested disks of a server."""

    image: Image | None  # of its local root disk, or that imageRef names beside a root volume, as in Nova
    volumes: tuple[RequestedVolume, ...] = ()
    root_bus: DiskBus | None = None  # requested for a local root disk
    root_properties: dict[str, str] = {}  # of the image that its root is, or was created from
    zone: str | None = None  # the name of its volumes' zone, if it must be in the same
    zone_of_snapshots: str | None = None  # the same for the volumes of its snapshots, if nothing else determines it


async def read(call: Call, requested: Mapping[str, Any], flavor: Flavor, *, several: bool) -> Disks:
    """Parse imageRef and the block devices. several: the request is for several servers. Raises: Invalid; Forbidden."""
    image_id, new = (
        requested.get("imageRef", ""),
        bool(requested.get("block_device_mapping_v2")),
    )
    devices = block_devices.read(requested, image_id)
    named = await flavor_and_image.image(call, image_id) if image_id else None
    if named and (of_image := block_devices.of_image(named.properties)):  # an image of volumes
        devices, image_id, new = block_devices.with_those_of_image(devices, image_id, of_image), "", True
    block_devices.check_blank(devices, flavor)
    volumes = [device for device in devices if not device.is_local]
    if volumes:
        call.check("os_compute_api:servers:create:attach_volume")
    root_image = block_devices.root_image(image_id, devices, new=new)
    block_devices.check_order(devices, root_image, new=new)
    block_devices.check_names(volumes, root_image)
    if several and any(device.source == "volume" for device in volumes):
        raise Invalid("Cannot attach one or more volumes to multiple instances")
    beside = named if image_id and not root_image else None
    found = Disks(image=beside)
    if root_image:
        image = named if named and named.id == root_image else await flavor_and_image.image(call, root_image)
        flavor_and_image.check_fit(call, flavor, image)
        local = [device.bus for device in devices if device.is_local and not device.is_blank_disk]
        found = Disks(image=image, root_properties=image.properties, root_bus=next(iter(local), None))
    await check_types(call, {device.volume_type for device in volumes if device.volume_type})
    for device in volumes:
        found = await _with(call, found, device, flavor, beside)
    return found


async def check_types(call: Call, names: Iterable[str]) -> None:
    """Raises: Invalid: the requester may not use one of these volume types, or there is none."""
    for name in names:
        project = None if call.is_admin else call.principal.project_id
        if not await call.cloud.volumes.has_type(name, project, call.granting_requester.grant):
            raise Invalid(f"Volume type {name} could not be found.")


# Sources


async def _with(call: Call, found: Disks, device: Device, flavor: Flavor, beside: Image | None) -> Disks:
    """Look up the source of one volume and add the volume.

    beside: an image that imageRef names although the root is a volume. It describes the server, as in Nova, so that the
    volume may be one without an operating system.
    """
    properties: Mapping[str, str] = {}
    needs: tuple[int, int] = (0, 0)  # MiB of memory, GiB of disk
    size = device.size_gib
    if device.source == "image":
        assert device.id, "an image has an id"
        image = await flavor_and_image.image(call, device.id)
        properties, needs = image.properties, (image.min_ram_mib, _gib(image))
    elif device.source in ("volume", "snapshot"):
        volume = await _source(call, device)
        size = _size_from(device, volume)
        metadata = volume.image_metadata
        properties, needs = metadata, (_number(metadata, "min_ram"), _number(metadata, "min_disk"))
        if device.source == "volume":
            _check_volume(call, volume)
            found = replace(found, zone=_one_zone(call, found.zone, volume))
        elif not call.cloud.rules.cross_az_attach:
            # Volume services usually create a volume in the zone of its snapshot.
            found = replace(found, zone_of_snapshots=found.zone_of_snapshots or volume.zone)
        if device.boot_index == 0 and not volume.is_bootable and not beside:
            raise Invalid(f"Block Device {device.id} is not bootable.")
    if device.boot_index == 0:
        if beside:
            properties, needs = (
                beside.properties,
                (beside.min_ram_mib, 0 if device.source == "volume" else beside.min_disk_gib),
            )
        _check_root(flavor, size, needs)
        found = replace(found, root_properties=dict(properties))
    elif device.source == "image":
        _check_disk(size, needs[1])
    return replace(found, volumes=(*found.volumes, _requested(device, size)))


def _requested(device: Device, size: int | None) -> RequestedVolume:
    return RequestedVolume(
        volume_id=device.id if device.source == "volume" else None,
        snapshot_id=device.id if device.source == "snapshot" else None,
        image_id=device.id if device.source == "image" else None,
        is_blank=device.source == "blank",
        size_gib=size,
        volume_type=device.volume_type,
        boot_index=device.boot_index,
        device=device.name,
        delete_on_termination=device.delete_on_termination,
        tag=device.tag,
        bus=device.bus,
        device_type=device.device_type,
    )


async def _source(call: Call, device: Device) -> Volume:
    """Return the volume, or the volume of the snapshot. Raises: Invalid: not visible to the requester."""
    assert device.id, "a volume or a snapshot has an id"
    volumes = call.cloud.volumes
    try:
        volume = await (volumes.volume if device.source == "volume" else volumes.snapshot_volume)(device.id)
    except NotFound:
        raise _no_source(device) from None
    if volume.project_id != call.principal.project_id and not call.is_admin:
        raise _no_source(device)
    return volume


def _no_source(device: Device) -> Invalid:
    return Invalid(f"Block Device Mapping is Invalid: failed to get {device.source} {device.id}.")


def _size_from(device: Device, volume: Volume) -> int:
    if device.source == "snapshot" and device.size_gib is not None and device.size_gib < volume.size_gib:
        raise Invalid(f"Block Device Mapping is Invalid: the snapshot {device.id} needs {volume.size_gib} GiB.")
    return device.size_gib if device.source == "snapshot" and device.size_gib else volume.size_gib


def _check_volume(call: Call, volume: Volume) -> None:
    check_multiattach(call, volume)
    if volume.status != "available" and not (volume.status == "in-use" and volume.is_multiattach):
        raise Invalid(
            f"Block Device Mapping is Invalid: Invalid volume: volume {volume.id} is {volume.status}, not available."
        )


def check_multiattach(call: Call, volume: Volume) -> None:
    """Raises: Invalid: the microversion is too old for a multiattach volume."""
    if volume.is_multiattach and call.minor < MULTIATTACH:
        raise Invalid(f"Multiattach volumes are only supported starting with compute API version 2.{MULTIATTACH}.")


def _one_zone(call: Call, zone: str | None, volume: Volume) -> str | None:
    """Raises: Invalid: volumes in two zones, if servers must be in the zone of their volumes."""
    if call.cloud.rules.cross_az_attach:
        return None
    if zone not in (None, volume.zone):
        raise Invalid(f"The requested volumes are in several availability zones: {zone} and {volume.zone}.")
    return volume.zone


# Size of the root disk


def _number(metadata: Mapping[str, str], name: str) -> int:
    """Return a number in an image's metadata; 0 if it is not a number."""
    text = metadata.get(name, "")
    return int(text) if text.isdecimal() else 0


def _gib(image: Image) -> int:
    return max(image.min_disk_gib, -(-image.size_bytes // flavor_and_image.GIB))


def _check_root(flavor: Flavor, size_gib: int | None, needs: tuple[int, int]) -> None:
    memory_mib, disk_gib = needs
    if flavor.memory_mib < memory_mib:
        raise Invalid(f"The flavor's memory is too small for the image: {memory_mib} MiB are needed.")
    _check_disk(size_gib, disk_gib)


def _check_disk(size_gib: int | None, needed_gib: int) -> None:
    if size_gib is not None and size_gib < needed_gib:
        raise Invalid(f"Volume is smaller than the minimum size specified in image metadata: {needed_gib} GiB.")
