"""The commands that make attachments and mappings of volumes agree again."""

from collections.abc import Iterator, Mapping, Sequence

from whimbrel.doctor import repairs
from whimbrel.doctor.doctor_finding import Command
from whimbrel.doctor.nova_records import Instance, Subject, VolumeUse
from whimbrel.doctor.service_records import Attachment

FIRST: Mapping[str, str] = {
    "resized": "confirm or revert its move", "paused": "unpause it", "suspended": "resume it", "rescued": "unrescue it",
    "shelved": "unshelve it", "soft-delete": "restore it",
}  # fmt: skip
"""What ends states in which Nova stops no server. Source: API.stop."""


def look_first(
    attachment: Attachment, host: str | None, subject: Subject, server: Instance | None
) -> Iterator[Command]:
    """Ask the host of an attachment whether a guest uses it: to delete it would take the guest's disk away.

    A guest has a volume before its attachment is complete. Source: ComputeManager._swap_volume.
    """
    if server and not host and attachment.status == "attaching":
        host = server.host
    if not host or (server is None and subject.is_known):
        return
    if server is None or server.host != host:
        yield repairs.ask_host(host, subject.id)
    else:
        xml = f"virsh -c qemu+ssh://{host}/system dumpxml {server.uuid} | grep {attachment.volume}"
        yield Command(f"{xml}  # if it prints a line, the guest has the volume: stop here")


def undo(use: VolumeUse, server: Instance, undone: Sequence[Attachment], status: str) -> list[Command]:
    """End an attach that never began on the host. A move, too, leaves an incomplete attachment: of a volume in use.

    status: of the volume.
    """
    if use.is_root or use.was_connected:
        return attach_again(use, server, status)
    own = [each for each in undone if each.server == use.server and use.attachment in (each.id, None)]
    return [drop(use), *(repairs.delete_attachment(each.id) for each in own)]


def attach_again(use: VolumeUse, server: Instance, volume_status: str = "") -> list[Command]:
    """A server keeps the record of a volume that its guest may use, or that it boots from.

    Nova has no command that makes another record for a root volume. The refresh needs a server that is stopped, and
    first reserves the volume: Cinder refuses that while it is attaching, also for its own server.
    Source: volume.api.API._attachment_reserve of Cinder.
    """
    if not use.is_root and (not use.was_connected or server.host is None):
        again = Command(f"openstack server add volume {use.server} {use.volume}  # if it needs it still")
        return [drop(use), again]
    if server.host is None or server.vm_state in FIRST:
        return []
    is_off, connector = server.vm_state == "stopped", f"{server.host}.json"
    status = f"openstack server show -f value -c status {use.server}"
    wait = f'for i in $(seq 90); do [ "$({status})" = SHUTOFF ] && break; sleep 2; done'
    off = (f"openstack server stop {use.server}", wait)  # the refresh is refused if it is not off by then
    return [
        Command(f"ssh {server.host} nova-manage volume_attachment get_connector --json > {connector}"),
        *([] if is_off else map(Command, off)),
        *[Command(f"openstack volume set --state in-use {use.volume}")] * (volume_status == "attaching"),
        Command(f"nova-manage volume_attachment refresh {use.server} {use.volume} {connector}"),
        *([] if is_off else [Command(f"openstack server start {use.server}")]),
    ]


def stop_first(server: Instance | None, commands: Sequence[Command]) -> str:
    """Return why no attachment is made anew, if that is so because the server cannot be stopped."""
    first = FIRST.get(server.vm_state or "") if server else None
    if commands or not first:
        return ""
    return (
        f"Nova makes an attachment anew only for a server that is off, and this one cannot be: {first}, and look again"
    )


def record_instead(attachment: Attachment, use: VolumeUse, others: Sequence[Attachment]) -> Iterator[Command]:
    """Record the attachment that the guest has. Without this a reboot or a delete uses that of another host."""
    row = f"instance_uuid = '{use.server}' AND volume_id = '{use.volume}' AND deleted = 0"
    yield repairs.sql(
        use.cell,
        f"UPDATE block_device_mapping SET attachment_id = '{attachment.id}' WHERE {row}"
        + (f" AND attachment_id = '{use.attachment}';" if use.attachment else " AND attachment_id IS NULL;"),
    )
    yield from (repairs.delete_attachment(other.id) for other in others if other.id == use.attachment)


def use_copy(attachment: Attachment, use: VolumeUse, server: Instance, old: Attachment | None) -> Iterator[Command]:
    """End a swap whose guest uses the copy already: do what nova-compute left undone.

    old: the attachment that Nova records, if Cinder still has it; it refuses to delete one that Nova records.
    Source: ComputeManager._swap_volume and _do_swap_volume.
    """
    xml = f"virsh -c qemu+ssh://{server.host}/system dumpxml {server.uuid} | grep {attachment.volume}"
    yield Command(f"{xml}  # if it prints no line, the guest does not have the copy: stop here")
    if use.attachment != attachment.id:
        yield from record_instead(attachment, use, [old] if old else [])
    yield repairs.complete_volume_migration(use.volume, attachment.volume)


def drop(use: VolumeUse) -> Command:
    never_used = "" if use.was_connected else " AND COALESCE(connection_info, 'null') = 'null'"
    return repairs.drop_mapping(use, f"(boot_index IS NULL OR boot_index <> 0){never_used}")
