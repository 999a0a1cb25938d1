"""The actions of a repair, one struct for each kind; `kind` is its tag in JSON.

Invariant: tags and JSON names are released: rows of the journal have them (`thing`: the id of what is changed).
"""

import msgspec
from msgspec import field

from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import CellName, HostName, ProjectId, RunId, ServerId, Slot


class _Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """sentence: the action in words, for people."""

    sentence: str

    @property
    def kind(self) -> str:
        return str(self.__struct_config__.tag)


class _OfGuest(_Action, frozen=True, kw_only=True, omit_defaults=True):
    cell: CellName
    host: HostName
    slot: Slot

    def key(self, server: ServerId) -> GuestKey:
        return GuestKey(server, self.slot)


class _OfProject(_Action, frozen=True, kw_only=True, omit_defaults=True):
    project: ProjectId = field(name="thing")


class _OfPort(_Action, frozen=True, kw_only=True, omit_defaults=True):
    port_id: str = field(name="thing")


class _OfRun(_Action, frozen=True, kw_only=True, omit_defaults=True):
    run_id: RunId = field(name="thing")


# The directory and records


class AdoptRecord(_Action, frozen=True, tag="adopt_record"):
    """Enter a server that is missing from the directory."""

    cell: CellName


class EraseEntry(_Action, frozen=True, tag="erase_entry"):
    """Mark the directory's entry deleted."""


class EnterProject(_OfProject, frozen=True, tag="enter_project"):
    """Write the project into the directory."""


class RecordProject(_OfProject, frozen=True, tag="record_project"):
    """Write the project into the record."""


class EraseCopy(_Action, frozen=True, tag="erase_copy"):
    """Erase a cell's record that is not the authoritative one."""

    cell: CellName


class StandAlone(_Action, frozen=True, tag="stand_alone"):
    """Mark the record as the only one."""


class WriteColumns(_Action, frozen=True, tag="write_columns"):
    """Rewrite the search columns of the record; locking it does this."""


class SettleRecord(_OfGuest, frozen=True, tag="settle_record"):
    """Rewrite the record from the only whole guest."""

    flavor_id: str = field(name="thing")


class CorrectQuota(_Action, frozen=True, tag="book"):
    """Correct the quota usage of the server."""


class Unlock(_OfRun, frozen=True, tag="unlock"):
    """Release the lock of a run that is over."""


class GiveLock(_OfRun, frozen=True, tag="give_lock"):
    """Return the lock to the move that waits for a verdict."""


# Guests


class AdoptGuest(_OfGuest, frozen=True, tag="adopt_guest"):
    """Set the location in the record to that of the only guest."""


class DestroyGuest(_OfGuest, frozen=True, tag="destroy_guest"):
    """Destroy an orphan guest."""


class ReleaseDevices(_OfGuest, frozen=True, tag="release_devices"):
    """Release the devices of a guest that does not exist."""


# Placement


class ClaimDue(_Action, frozen=True, tag="claim_due"):
    """Replace the allocation by the due one."""


class ReleaseClaim(_Action, frozen=True, tag="release_claim"):
    """Delete the allocation."""


class NameOwner(_OfProject, frozen=True, tag="name_owner"):
    """Correct the project of the consumer."""


class Recount(_Action, frozen=True, tag="recount"):
    """Recompute the usage of a provider."""


class TellZone(_Action, frozen=True, tag="tell_zone"):
    """Write the zone of a host."""

    host: HostName


# Networks, volumes, images


class BindPort(_OfPort, frozen=True, tag="bind_port"):
    host: HostName


class DeleteBinding(_OfPort, frozen=True, tag="let_go_binding"):
    host: HostName


class ReleasePort(_OfPort, frozen=True, tag="let_go_port"):
    """Delete a port that was created for the server; release one that its user created."""


class DetachVolume(_Action, frozen=True, tag="detach"):
    attachment_id: str = field(name="thing")


class EndSwap(_Action, frozen=True, tag="end_swap"):
    """End the migration of a volume under the server with the volume that the guest uses."""

    attachment_id: str = field(name="thing")  # of the new volume
    volume_id: str = field(name="volume")
    target_id: str = field(name="target")


class ReportSnapshot(_Action, frozen=True, tag="report_snapshot"):
    """Report that the guest uses the file of a snapshot."""

    snapshot_id: str = field(name="thing")
    volume_id: str = field(name="volume")


class EndMerge(_Action, frozen=True, tag="end_merge"):
    """Report that the files of a snapshot that is being deleted are not merged."""

    snapshot_id: str = field(name="thing")
    volume_id: str = field(name="volume")


class DeleteImage(_Action, frozen=True, tag="delete_image"):
    image_id: str = field(name="thing")


RepairAction = (
    AdoptRecord | EraseEntry | EnterProject | RecordProject | EraseCopy | StandAlone | WriteColumns | SettleRecord
    | CorrectQuota | Unlock | GiveLock
    | AdoptGuest | DestroyGuest | ReleaseDevices
    | ClaimDue | ReleaseClaim | NameOwner | Recount | TellZone
    | BindPort | DeleteBinding | ReleasePort | DetachVolume | EndSwap | ReportSnapshot | EndMerge
    | DeleteImage
)  # fmt: skip
