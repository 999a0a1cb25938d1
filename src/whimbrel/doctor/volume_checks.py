"""Volumes and attachments: Cinder's beside the block device mappings of Nova, both ways."""

from collections.abc import Iterable, Iterator, Sequence

from whimbrel.doctor import repairs
from whimbrel.doctor.check_context import BATCH, CheckContext
from whimbrel.doctor.doctor_finding import Command, Finding
from whimbrel.doctor.nova_records import Instance, Subject, VolumeUse
from whimbrel.doctor.server_findings import evidence_of
from whimbrel.doctor.service_records import Attachment, Volume, VolumeRecords
from whimbrel.doctor.volume_commands import attach_again, drop, look_first, record_instead, stop_first, undo, use_copy
from whimbrel.domain.batches import batches

TARGET = "target:"
MESSAGE_STATES = ("reserved", "attaching", "detaching")
"""States of volumes that last as long as an attach or a detach; a shelved server reserves its volumes."""
DETACHED_S = 24 * 3600.0
"""How long the copy of a volume that no server uses may take: nothing tells whether cinder-volume still writes it."""
NO_COPY = (
    "if the guest does not have the copy, as after a reboot, it uses what Nova records: then delete attachment {} only,"
    " and look again"
)
MAY_HAVE_COPY = (
    "if the guest has it, it writes only there: run `openstack --os-volume-api-version 3.44 volume attachment complete"
    " {}` instead, and look again"
)


class VolumeChecks:
    """Implements diagnosis.Checks."""

    title = "volumes and attachments"
    kinds = frozenset(
        {"attachment_of_gone_server", "attachment_without_mapping", "mapping_without_attachment", "stuck_volume"}
    )

    def __init__(self, volumes: VolumeRecords) -> None:
        self._volumes = volumes

    def all(self, context: CheckContext) -> Iterator[Finding]:
        known: set[str] = set()
        for page in self._volumes.attachments():
            known.update(each.id for each in page)
            yield from self._unmapped(page, context)
        for uses in batches(context.records.volume_mappings(), BATCH):
            yield from self._missing([each for each in uses if each.attachment not in known], context)
        del known
        for volumes in self._volumes.volumes():
            for each in volumes:
                yield from self._stuck(each, context)

    def some(self, before: Sequence[Finding], context: CheckContext) -> Iterator[Finding]:
        for each in before:
            if each.kind == "stuck_volume":
                volume = self._volumes.volume(each.subject)
                yield from self._stuck(volume, context) if volume else ()
            elif each.kind == "mapping_without_attachment":
                server, _, of = each.subject.partition("/")
                uses = [use for use in context.records.uses_of_volumes([of]) if use.server == server]
                yield from self._missing(uses, context)
            else:
                found = self._volumes.attachment(each.subject)
                yield from self._unmapped([found], context) if found else ()

    def unsettled(self, server: Instance, uses: Sequence[VolumeUse]) -> str:
        """Return the first attachment of a server on which Nova and Cinder do not agree, in words; "": there is none.

        uses: all of its mappings.
        """
        for use in uses:
            found = self._volumes.attachment(use.attachment) if use.attachment else None
            if found is None:
                return f"Cinder has no attachment {use.attachment or 'that Nova records'} of volume {use.volume}"
            volume = self._volumes.volume(use.volume)
            host = volume.hosts.get(found.id) if volume else None
            if (found.server, found.volume) != (server.uuid, use.volume):
                return f"attachment {found.id} of volume {use.volume} is that of another server or volume in Cinder"
            if found.status != "attached" or (host and host != server.host):
                return f"attachment {found.id} of volume {use.volume} is {found.status} on {host or 'no host'}"
        recorded = {each.attachment for each in uses}
        others = (each for each in self._volumes.attachments_for(server.uuid) if each.id not in recorded)
        return next((f"Nova does not record attachment {each.id} of volume {each.volume}" for each in others), "")

    # Attachments without a mapping

    def _unmapped(self, page: Sequence[Attachment], context: CheckContext) -> Iterator[Finding]:
        """Judge attachments that Nova does not record."""
        of_servers = [each for each in page if each.server]
        uses: dict[str, list[VolumeUse]] = {}
        for ids in batches(sorted({each.volume for each in of_servers}), BATCH):
            for use in context.records.uses_of_volumes(ids):
                uses.setdefault(use.volume, []).append(use)
        alone = [each for each in of_servers if not _is_recorded(each, uses.get(each.volume, ()))]
        subjects = context.subjects(each.server or "" for each in alone)
        for each in alone:
            subject = subjects[each.server or ""]
            volume = self._volumes.volume(each.volume)
            if volume and not context.has_changed(volume.touched):
                recorded = [use for use in uses.get(each.volume, ()) if use.server == each.server]
                yield from self._alone(each, volume, recorded, subject, context)

    def _alone(
        self, each: Attachment, volume: Volume, recorded: Sequence[VolumeUse], subject: Subject, context: CheckContext,
    ) -> Iterator[Finding]:  # fmt: skip
        gone = context.is_gone(subject)
        server = context.at_rest(subject)
        if server and _goes_on(server, context):
            return  # Nova records the volume that a swap copies to once it has been copied
        if gone:
            kind, text = "attachment_of_gone_server", f"is for server {subject.id}, which no cell has"
            cause = "the delete of the server, or its create, was interrupted before the attachment was deleted"
        elif server is not None:
            kind = "attachment_without_mapping"
            text = f"is for server {server.uuid} ({server.name}), and Nova does not record it"
            cause = "an attach or a move was interrupted, or the database of the cell was restored"
        else:
            return
        host = volume.hosts.get(each.id)
        commands = [*look_first(each, host, subject, server), repairs.delete_attachment(each.id)]
        own = next((use for use in recorded if server and _is_used(each, use, volume, server)), None)
        if own and server:
            text = (
                f"is for server {server.uuid} ({server.name}) on its host {server.host}, and Nova records"
                f" {own.attachment or 'none'}, which is not for that host"
            )
            cause = (
                "a live migration was interrupted after the target's attachment had been recorded, or a migration"
                " of the volume before its own was"
            )
            other = volume.hosts.get(own.attachment or "")
            commands = [repairs.ask_host(other, server.uuid)] if other else []
            commands += record_instead(each, own, self._volumes.attachments_of(volume.id))
        source = _source_of(volume)
        uses = context.records.uses_of_volumes([source]) if source else ()
        swapped = next((use for use in uses if use.server == each.server), None)
        note = ""
        if swapped and server and each.status == "attached" and host == server.host:
            text += f", while it records volume {source}, which Cinder copies to it"
            cause = "nova-compute of the host died after the guest had changed over to the copy: it writes only there"
            old = self._volumes.attachment(swapped.attachment) if swapped.attachment else None
            commands = list(use_copy(each, swapped, server, old))
            note = NO_COPY.format(each.id)
        elif swapped and server and each.status == "attaching":
            note = MAY_HAVE_COPY.format(each.id)
        yield Finding(
            kind=kind,
            subject=each.id,
            name=server.name if server else "",
            since=volume.touched,
            text=f"attachment {each.id} of volume {volume.id}, which is {volume.status}, {text}",
            cause=cause,
            evidence={
                "attachment": each.status, "volume": _evidence(volume), "server": evidence_of(subject, context.fleet),
            },
            commands=commands,
            note=note,
        )  # fmt: skip

    # Mappings without an attachment

    def _missing(self, uses: Sequence[VolumeUse], context: CheckContext) -> Iterator[Finding]:
        """Judge block device mappings of servers whose attachment Cinder does not have.

        A server whose create failed keeps its mappings until it is deleted; what it did not attach is fine. So is what
        a reclaim released that died: nova-compute reclaims the server again.
        Source: ComputeManager._reclaim_queued_deletes.
        """
        candidates = [each for each in uses if not context.has_changed(each.touched)]
        subjects = context.subjects(each.server for each in candidates)
        for each in candidates:
            server = context.at_rest(subjects[each.server])
            if server is None or server.cell != each.cell:
                continue  # it goes with the hidden copy of the server
            if _create_failed(server) or server.vm_state == "soft-delete" or self._has(each):
                continue
            volume = self._volumes.volume(each.volume)
            if volume and context.has_changed(volume.touched):
                continue
            if volume and (
                any(_is_used(other, each, volume, server) for other in self._volumes.attachments_of(volume.id))
                or (volume.migrates and self._has_copy_of(volume, server))
            ):
                continue  # the guest's own attachment is a finding, and mends this
            commands = attach_again(each, server) if volume else [drop(each)] * (not each.is_root)
            state = f"which is {volume.status}" if volume else "which does not exist"
            yield Finding(
                kind="mapping_without_attachment",
                subject=f"{each.server}/{each.volume}",
                name=server.name,
                since=max(each.touched, volume.touched if volume else 0.0),
                text=f"server {server.uuid} ({server.name}) has volume {each.volume}, {state}, by"
                f" {f'attachment {each.attachment}' if each.attachment else 'no attachment'}, and Cinder has no such"
                " attachment" + " of this server" * (not each.attachment),
                cause="an attach was interrupted before the attachment was made, or a detach, delete or move after it"
                " was deleted, or somebody deleted it in Cinder; another server can take the volume meanwhile",
                evidence={
                    "cell": each.cell, "written": each.touched, "volume": _evidence(volume),
                    "server": evidence_of(subjects[each.server], context.fleet),
                },
                commands=commands,
                note=stop_first(server, commands) if volume else "",
            )  # fmt: skip

    def _has(self, use: VolumeUse) -> bool:
        """Check whether Cinder has the attachment of a mapping, or any of its server if the mapping names none."""
        if use.attachment:
            return self._volumes.attachment(use.attachment) is not None
        return any(each.server == use.server for each in self._volumes.attachments_of(use.volume))

    def _has_copy_of(self, volume: Volume, server: Instance) -> bool:
        """Check whether a server uses, or may use, the copy of a volume that Cinder migrates."""
        used = (self._volumes.volume(each.volume) for each in self._volumes.attachments_for(server.uuid))
        return any(each and _source_of(each) == volume.id for each in used)

    # Volumes that Cinder migrates

    def _migration(self, volume: Volume, context: CheckContext) -> Iterator[Finding]:
        """Judge a volume that is copied, or its copy. What the guest may use is judged first, by its attachment."""
        if context.now - volume.touched <= context.limits.work_s:
            return
        attachments = self._volumes.attachments_of(volume.id)
        uses = list(context.records.uses_of_volumes([volume.id]))
        subjects = context.records.some(sorted({each.server for each in uses}))
        servers = [context.at_rest(each) for each in subjects]
        evidence = [evidence_of(each, context.fleet) for each in subjects]
        reset = repairs.end_volume_migration(volume.id)
        if not volume.migrates:
            source = self._volumes.volume(_source_of(volume))
            if not attachments and not uses and not (source and source.migrates):
                yield _stuck(
                    volume,
                    [],
                    [],
                    f"is {volume.status}, and what was copied to it is not migrated any more",
                    "cinder-volume or nova-compute died in the migration",
                    [
                        reset,
                        Command(f"openstack volume set --state available {volume.id}"),
                        Command(f"openstack volume delete {volume.id}"),
                    ],
                    "if you have reset the migration by hand when it was completing, this may be the only copy",
                )
        elif all(each and not self._is_copied(volume, each, context) for each in servers):
            note = ""
            if volume.migration == "completing":
                note = "the source may be deleted already: see in the log of cinder-volume how far it came"
            elif not servers:
                if context.now - volume.touched <= DETACHED_S:
                    return
                note = (
                    "cinder-volume copies a volume that no server uses, and records nothing meanwhile: see in its log"
                    " whether it still does"
                )
            state = "in-use" if volume.is_attached else "available"
            back = [Command(f"openstack volume set --state {state} {volume.id}"), reset]
            yield _stuck(
                volume,
                attachments,
                evidence,
                f"is {volume.status}, and its migration, which is {volume.migration}, stands still",
                "cinder-volume, or nova-compute of its server's host, died while it copied the volume",
                [] if note else back,
                note,
            )

    def _is_copied(self, volume: Volume, server: Instance, context: CheckContext) -> bool:
        """Check whether a host copies a volume of a server, or has left an attachment of the copy."""
        recorded = {each.attachment for each in context.records.uses_of_servers([server.uuid])}
        others = any(each.id not in recorded for each in self._volumes.attachments_for(server.uuid))
        return others or self._has_copy_of(volume, server) or _goes_on(server, context)

    # Volumes that stay in a state

    def _stuck(self, volume: Volume, context: CheckContext) -> Iterator[Finding]:
        if volume.migrates or volume.migration.startswith(TARGET):
            yield from self._migration(volume, context)
            return
        used_by_none = volume.status == "in-use" and not volume.is_attached
        if (
            not (volume.status in MESSAGE_STATES or used_by_none)
            or context.now - volume.touched <= context.limits.message_s
        ):
            return
        attachments = self._volumes.attachments_of(volume.id)
        uses = list(context.records.uses_of_volumes([volume.id]))
        if any(not _is_recorded(each, uses) for each in attachments):
            return  # the attachment is a finding, or of something that is no server
        if not uses:
            yield _stuck(
                volume, attachments, [], f"is {volume.status} by no server and no attachment",
                "the process that attached or detached it died, or its message was lost",
                [Command(f"openstack volume set --state available --detached {volume.id}  # if no guest has it as a"
                         " disk, as after a restore of Nova's database")])  # fmt: skip
            return
        subjects = context.records.some(sorted({each.server for each in uses}))
        servers = [context.at_rest(each) for each in subjects]
        if len(servers) < len({each.server for each in uses}) or None in servers:
            return  # a server is gone, or worked on: judged with it
        if used_by_none and not attachments:
            return  # the mapping is a finding
        if any(each and _goes_on(each, context) for each in servers):
            return
        evidence = [evidence_of(each, context.fleet) for each in subjects]
        if volume.status == "detaching":
            remove = [Command(f"openstack server remove volume {each.server} {each.volume}") for each in uses]
            yield _stuck(
                volume, attachments, evidence, f"is detaching from server {_names(servers)}, and nothing goes on",
                "the message to nova-compute of the server's host was lost, or that process died; if it is down, start"
                " it: it may end this itself",
                [Command(f"openstack volume set --state in-use {volume.id}"),
                 *(remove if len(uses) == 1 else [])])  # fmt: skip
            return
        waiting = {
            each.uuid for each in servers if each and (each.vm_state == "shelved_offloaded" or _create_failed(each))
        }
        undone = [
            each for each in attachments
            if each.status != "attached" and not (each.status in MESSAGE_STATES and each.server in waiting)
        ]  # fmt: skip
        ids = {each.id for each in undone}
        mappings = [
            each for each in uses
            if (each.attachment in ids or (not each.attachment and each.server not in waiting))
            and any(server and (server.uuid, server.cell) == (each.server, each.cell) for server in servers)
        ]  # fmt: skip
        if undone and mappings:
            held_up = [next(each for each in servers if each and each.uuid == use.server) for use in mappings]
            commands = [
                command
                for use, each in zip(mappings, held_up, strict=True)
                for command in undo(use, each, undone, volume.status)
            ]
            yield _stuck(
                volume, attachments, evidence, f"is {volume.status} for server {_names(held_up)}, and nothing goes on",
                "the message to nova-compute of the server's host was lost, or that process died in the attach; if it"
                " is down, start it: it may end this itself. Or a move failed after its source had let go of the"
                " volume",
                commands, stop_first(held_up[0], commands))  # fmt: skip


def _create_failed(server: Instance) -> bool:
    """Check whether a create failed: the server keeps its mappings, and its volumes wait, until it is deleted."""
    return server.vm_state == "error" and not server.is_launched


def _names(servers: Iterable[Instance | None]) -> str:
    return ", ".join(f"{each.uuid} ({each.name})" for each in servers if each)


def _goes_on(server: Instance, context: CheckContext) -> bool:
    """Check whether a host attaches, detaches or copies a volume of a server: it has no task state meanwhile."""
    work = context.records.volume_work(server)
    if work is None or work.open_event is None or context.now - work.touched > context.limits.work_s:
        return False
    return not context.is_down(server.cell, server.host)


def _is_recorded(attachment: Attachment, uses: Sequence[VolumeUse]) -> bool:
    """Check whether a mapping names an attachment, or one from before attachments had ids is of its server."""
    return any(
        use.attachment == attachment.id or (not use.attachment and use.server == attachment.server) for use in uses
    )


def _is_used(attachment: Attachment, use: VolumeUse, volume: Volume, server: Instance) -> bool:
    """Check whether the guest has a volume by this attachment, and not by the one that Nova records.

    A live migration records the target's attachment before the guest moves, and one that dies leaves it recorded.
    Source: ComputeManager.pre_live_migration.
    """
    hosts = volume.hosts
    return (
        attachment.server == use.server
        and attachment.id != use.attachment
        and server.host is not None
        and hosts.get(attachment.id) == server.host != hosts.get(use.attachment or "")
    )


def _stuck(
    volume: Volume, attachments: Sequence[Attachment], servers: Sequence[object], text: str, cause: str,
    commands: Sequence[Command], note: str = "",
) -> Finding:  # fmt: skip
    return Finding(
        kind="stuck_volume",
        subject=volume.id,
        name=volume.name,
        since=volume.touched,
        text=f"volume {volume.id}{f' ({volume.name})' if volume.name else ''} {text}",
        cause=cause,
        evidence={
            "volume": _evidence(volume), "servers": servers,
            "attachments": {each.id: each.status for each in attachments},
        },
        commands=commands,
        note=note,
    )  # fmt: skip


def _source_of(volume: Volume) -> str:
    """Return the volume that a copy is made of; "": it is no copy."""
    return volume.migration.removeprefix(TARGET) if volume.migration.startswith(TARGET) else ""


def _evidence(volume: Volume | None) -> dict[str, object] | None:
    return {"status": volume.status, "written": volume.touched} if volume else None
