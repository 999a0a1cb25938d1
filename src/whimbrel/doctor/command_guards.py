"""What must be so before a command is printed, and is known only once all services have been read.

A hard reboot of Nova drops mappings whose attachment Cinder does not have, and deletes attachments in Cinder that Nova
does not record: the server has lost its volume then. Source: ComputeManager._delete_dangling_bdms.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from whimbrel.doctor.check_context import BATCH
from whimbrel.doctor.doctor_finding import AskHost, Command, Finding, Reboot
from whimbrel.doctor.guest_checks import GuestChecks
from whimbrel.doctor.nova_records import Instance, NovaRecords, VolumeUse
from whimbrel.doctor.volume_checks import VolumeChecks
from whimbrel.domain.batches import batches

LOOK_FIRST = (
    "go on after virsh domstate only if {} answers shut off, or that it has no such domain. If the guest runs there,"
    " run nothing of this: its record is wrong, as after a live migration that died or a restored database. Then write"
    " that host into Nova; or, if the guest runs on its recorded host too, end it where it does not belong; and look"
    " again"
)
RUNS_THERE = (
    "the guest runs on {}, so the commands that follow from its record are left out: the record is wrong, as after a"
    " live migration that died or a restored database. Write that host into Nova; or, if the guest runs on its recorded"
    " host too, end it where it does not belong; and look again"
)
"""What was not to be seen in the records. Source: ComputeManager._post_live_migration."""
NO_REBOOT = (
    "no reboot is printed: a hard reboot of Nova drops volumes whose attachment Cinder does not have, and deletes"
    " attachments that Nova does not record, and {}. "
)
NOT_READ = NO_REBOOT.format("this server's record was gone, or not the only one, at the second read") + "Look again"
NOT_ASKED = (
    "Give --os-cloud and look again, or compare `openstack server volume list {}` with Cinder's attachments by hand;"
    " reboot it hard only if each of its volumes has, in both, the same attachment on its host"
)
LOOK_AGAIN = (
    "Run what is printed, look again, and mend its attachments; reboot it hard only once they are in no finding any"
    " more, and this note is gone"
)


def guarded(findings: Iterable[Finding], records: NovaRecords, services: Sequence[object]) -> list[Finding]:
    """Return findings with the commands that are safe, and notes on those that are left out."""
    guests = next((each for each in services if isinstance(each, GuestChecks)), None)
    found = list(findings)
    if any(isinstance(command, AskHost) for each in found for command in each.commands):
        running = guests.running() if guests else {}
        found = [_as_hosts_are(each, running) for each in found]
    volumes = next((each for each in services if isinstance(each, VolumeChecks)), None)
    servers = sorted({each.server for finding in found for each in finding.commands if isinstance(each, Reboot)})
    reasons = _reasons(servers, records, volumes)
    return [_without_reboots(each, reasons) for each in found]


def _as_hosts_are(finding: Finding, running: Mapping[str, frozenset[str]]) -> Finding:
    """End the commands at a host on which the guest runs, and ask the hosts that are not known."""
    kept: list[Command] = []
    for each in finding.commands:
        if not isinstance(each, AskHost) or each.host not in running:
            kept.append(each)
        elif each.server in running[each.host]:
            return msgspec.structs.replace(finding, commands=kept, note=_joined(finding.note, RUNS_THERE, each.host))
    asked = [each.host for each in kept if isinstance(each, AskHost)]
    note = _joined(finding.note, LOOK_FIRST, ", ".join(dict.fromkeys(asked))) if asked else finding.note
    return msgspec.structs.replace(finding, commands=kept, note=note)


def _joined(note: str, more: str, hosts: str) -> str:
    return f"{note}; {more.format(hosts)}" if note else more.format(hosts)


def _without_reboots(finding: Finding, reasons: Mapping[str, str]) -> Finding:
    kept: list[Command] = []
    notes = dict.fromkeys([finding.note] if finding.note else [])
    for each in finding.commands:
        if isinstance(each, Reboot) and each.server in reasons:
            notes[reasons[each.server]] = None
        else:
            kept.append(Command(each.line, each.sql_in))
    return msgspec.structs.replace(finding, commands=kept, note="; ".join(notes))


def _reasons(ids: Sequence[str], records: NovaRecords, volumes: VolumeChecks | None) -> dict[str, str]:
    """Return the servers that must not be rebooted yet, with the reason."""
    found = dict.fromkeys(ids, NOT_READ)
    for piece in batches(ids, BATCH):
        uses: dict[tuple[str, str], list[VolumeUse]] = {}
        for each in records.uses_of_servers(piece):
            uses.setdefault((each.cell, each.server.lower()), []).append(each)
        for subject in records.some(piece):
            if server := subject.server:
                reason = _reason(server, uses.get((server.cell, server.uuid), ()), volumes)
                found[server.uuid] = reason
    return {server: reason for server, reason in found.items() if reason}


def _reason(server: Instance, uses: Sequence[VolumeUse], volumes: VolumeChecks | None) -> str:
    if volumes is None:
        why = NO_REBOOT.format("this server has volumes, and Cinder was not asked") + NOT_ASKED.format(server.uuid)
        return why if uses else ""
    unsettled = volumes.unsettled(server, uses)
    return NO_REBOOT.format(unsettled) + LOOK_AGAIN if unsettled else ""
