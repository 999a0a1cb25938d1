"""A server's record: requested properties and visible states. Each field has one writer."""

from typing import Any

import msgspec

from whimbrel.domain.flavor import Flavor
from whimbrel.domain.guest import DiskName
from whimbrel.domain.guest_hardware import DiskBus
from whimbrel.domain.ids import CellName, GroupId, HostName, ProjectId, ServerId, Slot, UserId
from whimbrel.domain.server_devices import BlockDevice, Nic, RequestedNic, RequestedVolume


class RequestSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The owner's requirements for the server's host, now and at later moves."""

    zone_pin: str | None = None  # requested availability zone; None: any
    hints: dict[str, Any] = {}  # os:scheduler_hints as sent

    @property
    def requested_group(self) -> GroupId | None:
        """Return the requested server group. ServerGroups knows whether it still exists."""
        group: GroupId | None = self.hints.get("group")
        return group

    @property
    def listed_hints(self) -> dict[str, list[str]]:
        """Return the hints as Nova shows them: each is a list of texts. Nova has no deeper values: they are JSON."""
        lists = {name: hint if isinstance(hint, list) else [hint] for name, hint in self.hints.items()}
        return {name: [_text(each) for each in values] for name, values in lists.items()}


class Server(msgspec.Struct, kw_only=True):
    """One server. Times are seconds since 1970, UTC."""

    id: ServerId
    project_id: ProjectId
    user_id: UserId
    name: str
    flavor: Flavor
    image_id: str | None
    spec: RequestSpec
    created_at: float
    updated_at: float
    generation: int = 0  # increases with every change of the row; a change names the one that it read
    vm_state: str = "building"
    task_state: str | None = None
    cell: CellName | None = None  # None: not scheduled yet, or never scheduled
    host: HostName | None = None
    zone: str | None = None  # current zone
    slot: Slot | None = None  # identifies its guest among those on its host
    launched_at: float | None = None
    terminated_at: float | None = None
    deleted_at: float | None = None
    description: str | None = None
    hostname: str = ""
    key_name: str | None = None
    key_data: str | None = None
    user_data: str | None = None  # base64, as sent
    config_drive: bool = False
    access_ipv4: str = ""
    access_ipv6: str = ""
    disk_config: str = "MANUAL"
    metadata: dict[str, str] = {}
    tags: list[str] = []
    locked_by: str | None = None  # "owner" | "admin"
    locked_reason: str | None = None
    image_properties: dict[str, str] = {}
    heeds_hardware: bool = False  # whether its guest has the hardware requested by image and flavor; not in 0.1
    root_bus: DiskBus | None = None  # requested for its local root disk; None: as its image says
    nics: tuple[Nic, ...] = ()
    volumes: tuple[BlockDevice, ...] = ()
    # Requests that its create turns into nics and volumes. Stored records keep the former names.
    requested_nics: tuple[RequestedNic, ...] = msgspec.field(default=(), name="wished_nics")
    requested_volumes: tuple[RequestedVolume, ...] = msgspec.field(default=(), name="wished_volumes")
    security_groups: tuple[str, ...] = ()  # ids, for ports made for it; empty: the project's default
    security_group_names: tuple[str, ...] = ()  # their names at the request
    has_no_security_groups: bool = False  # the last group was removed: empty does not mean the default one
    reservation_id: str = ""
    launch_index: int = 0
    admin_pass: str | None = None
    random_seed: str = ""  # secret from which its guest's seed is made; "": none, of servers of older releases
    boot_roles: str = ""  # roles of the user that created it, separated by commas; "": of servers of older releases
    guest_password: str = ""  # posted by the guest, encrypted for the owner's key; "": none
    shelved_at: float | None = None
    shelved_host: HostName | None = None  # its host when it was shelved
    shelved_variables: bytes = b""  # of its UEFI, compressed, while it is shelved
    shelved_images: dict[DiskName, str] = {}  # image of each local disk that it is restored from, while it is shelved
    soft_deleted_at: float | None = None
    soft_deleted_from: str | None = None  # its vm_state then
    fault: dict[str, Any] | None = None  # {code, message, created (seconds), details}
    unknown: bytes | msgspec.UnsetType = msgspec.UNSET  # the document as stored, if a newer program has extended it

    @property
    def has_local_root(self) -> bool:
        """Check whether its root disk is on its host; otherwise it boots from a volume."""
        boots = [device.boot_index for device in self.volumes] + [
            requested.boot_index for requested in self.requested_volumes
        ]
        return 0 not in boots

    @property
    def power_state(self) -> int:
        """Return Nova's number: 0 no state, 1 running, 3 paused, 4 shut down."""
        if self.vm_state in ("active", "resized", "rescued") and self.host:
            return 1
        return {"paused": 3, "suspended": 4, "stopped": 4, "soft-delete": 4}.get(self.vm_state, 0)

    @property
    def counted(self) -> tuple[int, int]:
        """Return the cpus and MiB for which it counts in its project's quota."""
        return (0, 0) if self.vm_state == "soft-delete" else (self.flavor.vcpus, self.flavor.memory_mib)


NOT_SHELVED: dict[str, Any] = {"shelved_at": None, "shelved_host": None, "shelved_images": {}, "shelved_variables": b""}
"""The fields of a server that is not shelved any more."""


def _text(hint: Any) -> str:
    return msgspec.json.encode(hint).decode() if isinstance(hint, list | dict | None) else str(hint)
