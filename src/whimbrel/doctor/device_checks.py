"""PCI devices and volume attachments, as the cells record them."""

from collections.abc import Iterable, Iterator, Sequence

from whimbrel.doctor import repairs
from whimbrel.doctor.check_context import CheckContext
from whimbrel.doctor.doctor_finding import Command, Finding
from whimbrel.doctor.nova_records import Device, Subject, VolumeUse

KINDS = frozenset(
    {"pci_of_gone_server", "pci_on_other_host", "pci_claimed_twice", "volume_of_gone_server", "attachment_shared"}
)


def pci_devices(devices: Sequence[tuple[Device, Subject | None]], context: CheckContext) -> Iterator[Finding]:
    """Judge devices that are claimed or allocated. Those of servers that are worked on are left out."""
    used = {(each.cell, each.node_id, each.address) for each, _ in devices}
    for each, subject in devices:
        if context.has_changed(each.touched, subject.touched if subject else 0.0):
            continue
        if each.parent and (each.cell, each.node_id, each.parent) in used:
            yield _device("pci_claimed_twice", each, f"and the whole function {each.parent} is claimed too", [])
        if each.server is None:
            continue
        if subject is None:
            free = (
                "UPDATE pci_devices SET status = 'available', instance_uuid = NULL, request_id = NULL WHERE"
                f" compute_node_id = {each.node_id} AND address = '{each.address}' AND status = '{each.status}' AND"
                f" instance_uuid = '{each.server}' AND {repairs.no_server(each.server)};"
            )
            yield _device("pci_of_gone_server", each, "which is gone", [repairs.sql(each.cell, free)])
        elif (
            (server := subject.server)
            and not server.is_worked_on
            and not subject.migrations
            and (server.cell, server.host) != (each.cell, each.host)
        ):
            start = Command(f"systemctl restart nova-compute  # on {each.host}: it frees what no server has")
            yield _device("pci_on_other_host", each, f"which is on {server.host or 'no host'}", [start])


def _device(kind: str, each: Device, text: str, commands: list[Command]) -> Finding:
    return Finding(
        kind=kind,
        subject=f"{each.host or each.node_id}/{each.address}",
        since=each.touched,
        text=f"device {each.address} of {each.host} ({each.type}) is {each.status} by server {each.server}, {text}",
        cause="a move or a delete was interrupted before the device was freed",
        evidence={"cell": each.cell, "server": each.server, "status": each.status, "written": each.touched},
        commands=commands,
    )


def volumes(uses: Iterable[tuple[VolumeUse, bool]], context: CheckContext) -> Iterator[Finding]:
    found = list(uses)
    named_twice = {each.attachment for each, shared in found if shared}
    for each, shared in found:
        if context.has_changed(each.touched):
            continue
        if shared:
            kind, text = "attachment_shared", "is named by more than one server"
            cause, commands = "a database was restored, or a copy between cells was left", list[Command]()
        else:
            kind, text = "volume_of_gone_server", "names a server that is gone"
            cause = "the delete was interrupted before the volume was detached; Cinder may still call it in use"
            is_own = each.attachment not in (None, *named_twice)  # otherwise a live server may use it
            commands = [repairs.drop_mapping(each, repairs.no_server(each.server))]
            commands += [repairs.delete_attachment(each.attachment or "")] * is_own
        yield Finding(
            kind=kind,
            subject=f"{each.server}/{each.volume}",
            since=each.touched,
            text=f"attachment {each.attachment or '(without an id)'} of volume {each.volume} for server {each.server}"
            f" {text}",
            cause=cause,
            evidence={"cell": each.cell, "written": each.touched},
            commands=commands,
        )
