"""What must be so before a command is printed, and is known only once all services have been read.

A hard reboot of Nova drops mappings whose attachment Cinder does not have, and deletes attachments in Cinder that Nova
does not record: the server has lost its volume then. Source: ComputeManager._delete_dangling_bdms.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from whimbrel.doctor.doctor_finding import Command, Finding, Reboot
from whimbrel.doctor.nova_records import Instance, NovaRecords, VolumeUse
from whimbrel.doctor.volume_checks import VolumeChecks

PIECE = 500
NO_REBOOT = (
    "no reboot is printed: a hard reboot of Nova drops volumes whose attachment Cinder does not have, and deletes"
    " attachments that Nova does not record, and {}. "
)
NOT_ASKED = (
    "Give --os-cloud and look again, or compare `openstack server volume list {}` with Cinder's attachments by hand;"
    " reboot it hard only if each of its volumes has, in both, the same attachment on its host"
)
MEND_FIRST = (
    "Run what is printed, look again, and mend its attachments; reboot it hard only once they are in no finding any"
    " more, and this note is gone"
)


def guarded(findings: Iterable[Finding], records: NovaRecords, beside: Sequence[object]) -> list[Finding]:
    """Return findings with the commands that are safe, and notes on those that are left out."""
    found = list(findings)
    volumes = next((each for each in beside if isinstance(each, VolumeChecks)), None)
    servers = sorted({each.server for finding in found for each in finding.commands if isinstance(each, Reboot)})
    reasons = _reasons(servers, records, volumes)
    return [_without_reboots(each, reasons) for each in found]


def _without_reboots(finding: Finding, reasons: Mapping[str, str]) -> Finding:
    kept: list[Command] = []
    notes = dict.fromkeys([finding.note] if finding.note else [])
    for each in finding.commands:
        if isinstance(each, Reboot) and each.server in reasons:
            notes[reasons[each.server]] = None
        else:
            kept.append(Command(each.line, each.sql_in))
    return msgspec.structs.replace(finding, commands=kept, note=". ".join(notes))


def _reasons(ids: Sequence[str], records: NovaRecords, volumes: VolumeChecks | None) -> dict[str, str]:
    """Return the servers that must not be rebooted yet, with the reason."""
    found: dict[str, str] = {}
    for start in range(0, len(ids), PIECE):
        piece = ids[start : start + PIECE]
        uses: dict[tuple[str, str], list[VolumeUse]] = {}
        for each in records.uses_of_servers(piece):
            uses.setdefault((each.cell, each.server.lower()), []).append(each)
        for subject in records.some(piece):
            if server := subject.server:
                reason = _reason(server, uses.get((server.cell, server.uuid), ()), volumes)
                found.update({server.uuid: reason} if reason else {})
    return found


def _reason(server: Instance, uses: Sequence[VolumeUse], volumes: VolumeChecks | None) -> str:
    if volumes is None:
        why = NO_REBOOT.format("this server has volumes, and Cinder was not asked") + NOT_ASKED.format(server.uuid)
        return why if uses else ""
    unsettled = volumes.unsettled(server, uses)
    return NO_REBOOT.format(unsettled) + MEND_FIRST if unsettled else ""
