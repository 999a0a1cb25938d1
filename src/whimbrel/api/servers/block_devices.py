"""Block devices in both forms of a POST, and their consistency. Nothing is looked up here."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import msgspec
from msgspec.structs import replace

from whimbrel.api.schemas.parameters import truth
from whimbrel.domain.errors import Invalid
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.guest_hardware import DeviceType, DiskBus

ROOT = "/dev/vda"
_OTHER_BUS = re.compile(r"^[sh]d(?=[a-z]{1,2}$)")


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """One block device, in the common representation of both forms."""

    source: str  # "image" | "volume" | "snapshot" | "blank"
    id: str | None
    is_local: bool = False
    size_gib: int | None = None  # in MiB for a swap disk
    volume_type: str | None = None
    boot_index: int | None = None
    name: str | None = None
    delete_on_termination: bool = False
    tag: str | None = None
    guest_format: str | None = None
    bus: DiskBus | None = None
    device_type: DeviceType = "disk"

    @property
    def is_blank_disk(self) -> bool:
        """Check whether it is an ephemeral or a swap disk of the host."""
        return self.is_local and self.source == "blank"


# The two forms


def read(requested: Mapping[str, Any], image_id: str) -> list[Device]:
    """Parse the devices of a request, in either form. Raises: Invalid."""
    old, new = requested.get("block_device_mapping"), requested.get("block_device_mapping_v2")
    if old and new:
        raise Invalid("Using different block_device_mapping syntaxes is not allowed in the same request.")
    if new:
        return [_new_form(device) for device in new if not truth(device.get("no_device", False))]
    return _old_form(old or [], image_id)


def of_image(properties: Mapping[str, str]) -> list[Device]:
    """Return the devices that an image of volumes names; none: it is an image of a disk. Raises: Invalid."""
    try:
        found = msgspec.json.decode(properties.get("block_device_mapping") or "[]", type=list[dict[str, Any]])
        return [_new_form(device) for device in found if not truth(device.get("no_device") or False)]
    except (msgspec.DecodeError, ValueError) as error:
        raise Invalid(f"Block Device Mapping is Invalid: that of the image cannot be read: {error}") from None


def with_those_of_image(devices: Sequence[Device], image_id: str, of_image: Sequence[Device]) -> list[Device]:
    """Return the devices of a request with those of its image; a request may replace them by name or boot index."""
    own = [one for one in devices if not (one.is_local and one.source == "image" and one.id == image_id)]
    names = {one.name for one in own if one.name}
    indexes = {one.boot_index for one in own if one.boot_index is not None}
    return [*(one for one in of_image if one.name not in names and one.boot_index not in indexes), *own]


def _new_form(sent: Mapping[str, Any]) -> Device:
    source = sent.get("source_type")
    if source is None:
        raise Invalid("Block Device Mapping is Invalid: a device has no source_type.")
    id = sent.get("uuid") or sent.get(f"{source}_id")
    if source == "blank" and id:
        raise Invalid("Block Device Mapping is Invalid: Invalid device UUID: what is blank has no source.")
    if source != "blank" and not id:
        raise Invalid("Block Device Mapping is Invalid: Missing device UUID.")
    index, bus = sent.get("boot_index"), sent.get("disk_bus")
    if bus and bus not in get_args(DiskBus):
        raise Invalid(f"Block Device Mapping is Invalid: The provided disk bus {bus} is not valid.")
    device_type: Any = sent.get("device_type") or "disk"
    if device_type not in get_args(DeviceType):
        raise Invalid(
            f"Block Device Mapping is Invalid: The device type {device_type} is not supported: it is 'disk' or 'cdrom'."
        )
    device = Device(
        source=source,
        id=id,
        is_local=sent.get("destination_type", "local" if source in ("image", "blank") else "volume") == "local",
        size_gib=_size(sent.get("volume_size")),
        volume_type=sent.get("volume_type"),
        boot_index=None if index is None or int(index) < 0 else int(index),
        name=_name(sent.get("device_name")),
        delete_on_termination=truth(sent.get("delete_on_termination", False)),
        tag=sent.get("tag"),
        guest_format=sent.get("guest_format"),
        bus=bus or None,
        device_type=device_type,
    )
    return _possible(device)


def _possible(device: Device) -> Device:
    """Raises: Invalid: the combination of fields is impossible."""
    if device.is_local and device.volume_type:
        raise Invalid("Specifying a volume_type with destination_type=local is not supported.")
    if device.source == "volume" and device.volume_type:
        raise Invalid("Block Device Mapping is Invalid: a volume that is there has its type already.")
    if device.is_local and device.source in ("volume", "snapshot"):
        raise Invalid(f"Block Device Mapping is Invalid: Mapping {device.source} to local is not supported.")
    if device.device_type == "cdrom" and device.is_local:
        raise Invalid("Block Device Mapping is Invalid: only a volume can be a CD-ROM, and no disk of the host.")
    if device.device_type == "cdrom" and device.bus == "virtio":
        raise Invalid("Block Device Mapping is Invalid: no guest has a CD-ROM on the bus virtio.")
    if device.is_blank_disk and device.bus:
        raise Invalid("Block Device Mapping is Invalid: ephemeral and swap disks have the bus of the image's disks.")
    if device.is_blank_disk and device.boot_index is not None:
        raise Invalid("Block Device Mapping is Invalid: nothing boots from an ephemeral or a swap disk.")
    if device.is_local and not device.is_blank_disk and device.boot_index != 0:
        raise Invalid("Block Device Mapping is Invalid: Mapping image to local is not supported but for boot_index 0.")
    if not device.is_local and device.source in ("image", "blank") and not device.size_gib:
        raise Invalid(
            "Block Device Mapping is Invalid: Images and blank devices with destination_type 'volume' need to have a"
            " non-zero size specified"
        )
    return device


def _old_form(sent: Sequence[Mapping[str, Any]], image_id: str) -> list[Device]:
    """Parse the first form, in which a server without an image boots from its device vda, or from its first."""
    devices = [
        _possible(
            Device(
                source="volume" if one.get("volume_id") else "snapshot" if one.get("snapshot_id") else "blank",
                id=one.get("volume_id") or one.get("snapshot_id"),
                size_gib=_size(one.get("volume_size")),
                name=_name(one.get("device_name")),
                delete_on_termination=truth(one.get("delete_on_termination", False)),
            )
        )
        for one in sent
        if not one.get("no_device")
    ]
    if image_id or not devices:
        return devices
    root = next((number for number, device in enumerate(devices) if device.name == ROOT), 0)
    return [replace(one, boot_index=0) if number == root else one for number, one in enumerate(devices)]


def _size(sent: Any) -> int | None:
    return None if sent is None or sent == "" else int(sent)


def _name(sent: str | None) -> str | None:
    """Return the name as it is recorded: whatever its bus, a device counts by its letter, as vda, vdb, vdc ..."""
    return f"/dev/{_OTHER_BUS.sub('vd', sent.removeprefix('/dev/'))}" if sent else None


# Consistency


def root_image(image_id: str, devices: Sequence[Device], *, new: bool) -> str | None:
    """Return the image of the local root disk; None: the root is a volume. Raises: Invalid: two images, or no root."""
    local = [device.id for device in devices if device.is_local and not device.is_blank_disk]
    roots = [device for device in devices if device.boot_index == 0 and not device.is_local]
    if local:
        if (image_id and local[0] != image_id) or len(local) > 1:
            raise Invalid("Block Device Mapping is Invalid: imageRef and block_device_mapping_v2 name two images.")
        return local[0]
    if roots:  # also beside an imageRef, which then names no disk, as in Nova
        return None
    if not image_id and not new:
        raise Invalid("Invalid imageRef provided: a server boots from an image or from a volume.")
    return image_id or None


def check_blank(devices: Sequence[Device], flavor: Flavor) -> None:
    """Ensure that the requested ephemeral and swap disks match the flavor's. Raises: Invalid."""
    blank = [device for device in devices if device.is_blank_disk]
    swaps = [device for device in blank if device.guest_format == "swap"]
    ephemerals = [device for device in blank if device.guest_format != "swap"]
    if len(swaps) > 1:
        raise Invalid("More than one swap drive requested.")
    if any((device.size_gib or 0) > flavor.swap_mib for device in swaps):
        raise Invalid("Swap drive requested is larger than instance type allows.")
    if sum(device.size_gib or flavor.ephemeral_gib for device in ephemerals) > flavor.ephemeral_gib:
        raise Invalid("Ephemeral disks requested are larger than the instance type allows.")
    gives = [(swaps, flavor.swap_mib), (ephemerals, flavor.ephemeral_gib)]
    if any(not size or device.size_gib not in (None, size) for wanted, size in gives for device in wanted):
        raise Invalid(
            "Block Device Mapping is Invalid: ephemeral and swap disks are as the flavor says,"
            f" {flavor.ephemeral_gib} GiB and {flavor.swap_mib} MiB."
        )
    if any(device.guest_format not in (None, "ext4") for device in ephemerals):
        raise Invalid("Block Device Mapping is Invalid: ephemeral disks are made as ext4.")


def check_order(devices: Sequence[Device], root: str | None, *, new: bool) -> None:
    """Raises: Invalid: the boot indexes are not 0, 1, 2 ..."""
    indexes = sorted(device.boot_index for device in devices if device.boot_index is not None)
    if not new and root:
        indexes = [0, *indexes]
    if indexes != list(range(len(indexes))) or not indexes:
        raise Invalid(
            "Block Device Mapping is Invalid: Boot sequence for the instance and image/block device mapping combination"
            " is not valid."
        )


def check_names(volumes: Sequence[Device], root: str | None) -> None:
    """root: the image of a local root disk. Raises: Invalid: a duplicate name or volume."""
    names = [device.name for device in volumes if device.name]
    if root and ROOT in names:
        raise Invalid(f"The volume cannot be assigned the same device name as the root device {ROOT}")
    if len(set(names)) < len(names):
        raise Invalid("Block Device Mapping is Invalid: two devices have the same name.")
    ids = [device.id for device in volumes if device.source == "volume"]
    if len(set(ids)) < len(ids):
        raise Invalid("Block Device Mapping is Invalid: a volume is named twice.")
