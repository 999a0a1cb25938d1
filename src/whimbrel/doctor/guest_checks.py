"""Guests on hypervisors beside the servers of Nova: elsewhere, twice, nowhere, and those of no server.

Only the hosts that are given are asked. What is found nowhere may be on another host.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from whimbrel.doctor import repairs
from whimbrel.doctor.check_context import BATCH, CheckContext
from whimbrel.doctor.doctor_finding import Command, Finding
from whimbrel.doctor.guest_records import Guest, GuestRecords
from whimbrel.doctor.nova_records import Fleet, Instance, Subject
from whimbrel.doctor.server_findings import evidence_of
from whimbrel.domain.batches import batches
from whimbrel.domain.errors import Invalid

WITHOUT_GUEST = ("building", "error", "shelved_offloaded", "deleted")

UNFENCED = (
    "it was evacuated while only nova-compute of the source was down, and the machine ran on; when that nova-compute"
    " starts again, it destroys its guest of this server"
)
"""Source: ComputeManager._destroy_evacuated_instances."""

Places = Mapping[str, Sequence[tuple[str, Guest]]]
"""Hosts and guests by id."""


class GuestChecks:
    """Implements diagnosis.Checks."""

    title = "guests on the hypervisors"
    kinds = frozenset({"guest_twice", "guest_elsewhere", "guest_nowhere", "guest_left_over", "guest_of_no_server"})

    def __init__(self, guests: GuestRecords) -> None:
        self._guests = guests

    def all(self, context: CheckContext) -> Iterator[Finding]:
        known = {node.host for node in context.fleet.nodes}
        if unknown := sorted(set(self._guests.hosts) - known):
            raise Invalid(f"--libvirt names {', '.join(unknown)}, and no cell has a nova-compute of that name")
        places = self._places()
        for host in self._guests.hosts:
            for ids in context.records.servers_on(host):
                yield from self._judged(context.records.some(ids), places, context)
        for ids in batches(sorted(places), BATCH):
            others = context.subjects(ids).values()
            yield from self._judged([each for each in others if not self._is_asked(each.server)], places, context)

    def some(self, before: Sequence[Finding], context: CheckContext) -> Iterator[Finding]:
        places = self._places()
        for ids in batches(sorted({each.subject for each in before}), BATCH):
            yield from self._judged(context.subjects(ids).values(), places, context)

    def running(self) -> Mapping[str, frozenset[str]]:
        """Return the ids of the guests that run, or are paused, by the hosts that are asked."""
        return {
            host: frozenset(each.id.lower() for each in self._guests.guests(host) if each.is_active)
            for host in self._guests.hosts
        }

    def _is_asked(self, server: Instance | None) -> bool:
        return server is not None and server.host in self._guests.hosts

    def _places(self) -> Places:
        found: dict[str, list[tuple[str, Guest]]] = {}
        for host in self._guests.hosts:
            for each in self._guests.guests(host):
                found.setdefault(each.id.lower(), []).append((host, each))
        return found

    def _judged(self, subjects: Iterable[Subject], places: Places, context: CheckContext) -> Iterator[Finding]:
        for subject in subjects:
            there = places.get(subject.id, ())
            server = context.at_rest(subject)
            if server is not None and not subject.waits_between_cells:
                yield from self._of_server(subject, server, there, context.fleet)
            elif any(guest.is_of_nova for _, guest in there) and context.is_gone(subject):
                yield self._unknown(subject, there, context.fleet)

    def _of_server(
        self, subject: Subject, server: Instance, there: Sequence[tuple[str, Guest]], fleet: Fleet
    ) -> Iterator[Finding]:
        here = [guest for host, guest in there if host == server.host]
        elsewhere = [(host, guest) for host, guest in there if host != server.host]
        running = [host for host, guest in elsewhere if guest.is_active]
        waiting = {each.source for each in (*subject.open_migrations, *subject.evacuations)}
        stop = [Command(f"virsh -c {self._guests.address(host)} destroy {server.uuid}") for host in running]
        # An evacuation can leave a server stopped: it is not started, and its guest is made when somebody starts it.
        again = repairs.replug(server) if server.host and server.vm_state != "stopped" else []
        unfenced = any(each.source in running and each.has_evacuated(server) for each in subject.evacuations)
        replug, not_rebooted = repairs.replug(server), repairs.not_rebooted(server)
        if running and any(guest.is_active for guest in here):
            yield _finding(
                "guest_twice", subject, server, there, fleet,
                f"runs on {server.host}, where it belongs, and on {', '.join(running)}: its disks may be damaged",
                UNFENCED if unfenced else "a move or an evacuation went on while the guest of the source was running",
                stop)  # fmt: skip
        elif running:
            yield _finding(
                "guest_elsewhere", subject, server, there, fleet,
                f"is on {server.host or 'no host'}, and its guest runs on {', '.join(running)}",
                UNFENCED
                if unfenced
                else "a move was interrupted after the guest had moved, or before the record was put back",
                [Command(f"virsh -c {self._guests.address(host)} shutdown {server.uuid}  # and wait until it is off")
                 for host in running] + again,
                "users may be using this guest: run nothing if it may stay where it runs, and write that host into Nova"
                f" instead. Otherwise see first that its disks are volumes or shared: {server.host or 'another host'}"
                " has no copy of what it wrote on local ones" + f". {not_rebooted}" * bool(not_rebooted))  # fmt: skip
        elif not here and self._is_asked(server) and server.is_launched and server.vm_state not in WITHOUT_GUEST:
            yield _finding(
                "guest_nowhere", subject, server, there, fleet,
                f"is {server.vm_state} on {server.host}, whose hypervisor has no guest of it",
                "the guest was undefined by hand or by an interrupted move, or the host was installed anew: see that"
                " its disks are there",
                replug, not_rebooted)  # fmt: skip
        left = [host for host, guest in elsewhere if not guest.is_active and host not in waiting]
        undefine = [self._undefine(host, server.uuid) for host in left]
        if left and not running:
            yield _finding(
                "guest_left_over", subject, server, there, fleet,
                f"is on {server.host or 'no host'}, and {', '.join(left)} still has a guest of it, which is off",
                "a move or an evacuation was interrupted before the source was cleaned up",
                undefine if here else [],
                "" if here else f"it was not seen on {server.host}, and this may be all that is left of it: see where"
                " its disks are before you undefine anything")  # fmt: skip

    def _unknown(self, subject: Subject, there: Sequence[tuple[str, Guest]], fleet: Fleet) -> Finding:
        hosts = ", ".join(f"{host} ({guest.state})" for host, guest in there)
        if not subject.is_known:
            return _finding(
                "guest_of_no_server", subject, None, there, fleet,
                f"is in no cell, not even as deleted, and has a guest on {hosts}",
                "it was purged before its guest was removed, or the database was restored to a time before its create",
                [Command(f"virsh -c {self._guests.address(host)} dumpxml {subject.id}") for host, _ in there],
                "its XML has the owner and the disks. After a restore of the database this may be a server in use: see"
                " that nobody needs it before you destroy it")  # fmt: skip
        commands = []
        for host, guest in there:
            if guest.is_active:
                commands.append(Command(f"virsh -c {self._guests.address(host)} destroy {subject.id}"))
            commands.append(self._undefine(host, subject.id))
        return _finding(
            "guest_of_no_server", subject, None, there, fleet,
            f"is in no cell, and has a guest on {hosts}",
            "its delete was interrupted, or the host was down meanwhile; nova-compute removes such guests when"
            " [DEFAULT] running_deleted_instance_action is reap", commands)  # fmt: skip

    def _undefine(self, host: str, id: str) -> Command:
        return Command(f"virsh -c {self._guests.address(host)} undefine --nvram --managed-save {id}")


def _finding(
    kind: str, subject: Subject, server: Instance | None, there: Sequence[tuple[str, Guest]], fleet: Fleet,
    text: str, cause: str, commands: list[Command], note: str = "",
) -> Finding:  # fmt: skip
    return Finding(
        kind=kind,
        subject=subject.id,
        name=server.name if server else "",
        since=subject.touched or None,
        text=f"server {subject.id}{f' ({server.name})' if server else ''} {text}",
        cause=cause,
        evidence={
            "guests": {host: f"{guest.name}, {guest.state}" for host, guest in there},
            "server": evidence_of(subject, fleet),
        },
        commands=commands,
        note=note,
    )
