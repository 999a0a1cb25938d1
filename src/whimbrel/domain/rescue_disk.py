"""Rescue disks: what a guest boots from instead of its own disk while its server is rescued.

Source: Nova's image properties hw_rescue_device and hw_rescue_bus.
"""

from collections.abc import Mapping
from typing import Literal, cast, get_args

import msgspec

from whimbrel.domain.errors import Invalid

RescueDevice = Literal["disk", "cdrom"]
RescueBus = Literal["virtio", "ide", "scsi", "sata", "usb"]


class RescueDisk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A disk made from an image, from which a guest boots while it is rescued.

    is_stable: all devices of the guest stay, with their names. Otherwise the guest has this disk and then its root
    disk, and none of its other disks and volumes.
    """

    image_id: str
    device: RescueDevice = "disk"
    bus: RescueBus = "virtio"
    is_stable: bool = False


def rescue_disk(image_id: str, properties: Mapping[str, str], *, has_local_root: bool) -> RescueDisk:
    """Return the rescue disk that an image's properties ask for. Raises: Invalid: no host has such a device.

    A server that boots from a volume keeps its devices in any case.
    """
    device, bus = properties.get("hw_rescue_device"), properties.get("hw_rescue_bus")
    if device is not None and device not in get_args(RescueDevice):
        raise Invalid(f"Requested rescue device '{device}' is not supported")
    if bus is None:
        bus = "sata" if device == "cdrom" else "virtio"
    if bus not in get_args(RescueBus) or (device, bus) == ("cdrom", "virtio"):
        raise Invalid(f"Requested rescue bus '{bus}' is not supported")
    is_stable = not has_local_root or "hw_rescue_device" in properties or "hw_rescue_bus" in properties
    return RescueDisk(
        image_id=image_id,
        device=cast(RescueDevice, device or "disk"),
        bus=cast(RescueBus, bus),
        is_stable=is_stable,
    )
