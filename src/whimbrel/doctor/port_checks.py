"""Ports of servers, as Neutron has them: whose server is gone, and those that are bound elsewhere or twice."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from whimbrel.doctor import repairs
from whimbrel.doctor.check_context import CheckContext
from whimbrel.doctor.doctor_finding import Command, Finding
from whimbrel.doctor.nova_records import Fleet, Instance, Subject
from whimbrel.doctor.server_findings import evidence_of
from whimbrel.doctor.service_records import Binding, Port, PortRecords
from whimbrel.domain.batches import batches

FAILED = "binding_failed"
WRONG = "wrong_bandwidth"
REPLUGGED = ("port_on_other_host", "port_binding_failed")
BATCH = 200
"""How many ports or servers one request to Neutron names."""
MOVED = "a move was interrupted between the change of the server's host and that of the port, or back"
NONE_ACTIVE = (
    "a move between cells failed: Nova deleted the target's binding and did not make the source's the active one again"
)
"""Source: PrepResizeAtDestTask.rollback."""
GUEST_MAY_BE_THERE = "; in a live migration the port follows the guest"
"""Source: ComputeManager._post_live_migration, which activates the target's binding once the guest has moved."""


class PortChecks:
    """Implements diagnosis.Checks."""

    title = "ports and their bindings"
    kinds = frozenset({"port_of_gone_server", "port_on_other_host", "port_binding_failed", "port_bound_twice", WRONG})

    def __init__(self, ports: PortRecords) -> None:
        self._ports = ports

    def all(self, context: CheckContext) -> Iterator[Finding]:
        asking = set(context.records.bandwidth_holders())
        for page in self._ports.all():
            yield from self._judged(page, context)
            asking.update(each.server for each in page if each.wants)
        yield from self._of_bandwidth(sorted(asking), context)
        for host in sorted({node.host for node in context.fleet.nodes}):
            for ids in self._ports.also_bound_to(host):
                for some in batches(ids, BATCH):
                    yield from self._twice(self._ports.some(some), context)

    def some(self, before: Sequence[Finding], context: CheckContext) -> Iterator[Finding]:
        servers = sorted({each.subject for each in before if each.kind == WRONG})
        yield from self._of_bandwidth(servers, context)
        for ids in batches(sorted({each.subject for each in before} - set(servers)), BATCH):
            found = self._ports.some(ids)
            yield from self._judged(found, context)
            twice = {each.subject for each in before if each.kind == "port_bound_twice"}
            yield from self._twice([each for each in found if each.id in twice], context)

    def _judged(self, ports: Sequence[Port], context: CheckContext) -> Iterator[Finding]:
        for each, subject in _with_servers(ports, context):
            if not context.has_changed(each.touched):
                yield from self._judge(each, subject, context)

    def _of_bandwidth(self, servers: Sequence[str], context: CheckContext) -> Iterator[Finding]:
        """Compare what servers hold for their ports with what these ask for."""
        for ids in batches(servers, BATCH):
            ports: dict[str, list[Port]] = {}
            for port in self._ports.of_servers(ids):
                ports.setdefault(port.server, []).append(port)
            for subject in context.records.some(ids):
                server, own = context.at_rest(subject), ports.get(subject.id, [])
                if server and not any(context.has_changed(each.touched) for each in own):
                    yield from _bandwidth(subject, server, own, context.fleet)

    def _twice(self, ports: Sequence[Port], context: CheckContext) -> Iterator[Finding]:
        for each, subject in _with_servers(ports, context):
            server = context.at_rest(subject)
            if server is None or subject.waits_between_cells or context.has_changed(each.touched):
                continue
            if server.host not in (each.host, None):
                continue  # it is bound to another host: a finding by itself
            bindings = self._ports.bindings(each.id)
            others = [binding.host for binding in bindings if binding.host not in (each.host, "")]
            if not others:
                continue
            yield _finding(
                "port_bound_twice", each, subject, server, context.fleet,
                f"is bound to {each.host}, and still has a binding to {', '.join(others)}, while no move of server"
                f" {subject.id} ({server.name}) goes on",
                "a live migration or a move between cells was interrupted before the other binding was deleted",
                [*(repairs.ask_host(host, server.uuid) for host in others),
                 *(_delete_binding(each.id, host) for host in others)],
                bindings=[[binding.host, binding.status] for binding in bindings],
            )  # fmt: skip

    def _judge(self, port: Port, subject: Subject, context: CheckContext) -> Iterator[Finding]:
        if context.is_gone(subject):
            known = subject.is_known
            ask = [repairs.ask_host(port.host, subject.id)] if port.host and not known else []
            yield _finding(
                "port_of_gone_server", port, subject, None, context.fleet,
                f"belongs to server {subject.id}, which {'is deleted' if known else 'no cell knows'}",
                "the delete of the server, or its create, was interrupted before the port was released"
                + ("" if known else "; or another program than Nova made it"),
                [*ask, Command(f"openstack port delete {port.id}  # one that a user made: openstack port unset --device"
                         f" --device-owner --host {port.id}")],
            )  # fmt: skip
            return
        server = context.at_rest(subject)
        if server is None or server.host is None or server.vm_state == "shelved_offloaded":
            return  # an offloaded server's ports may be bound to its last host
        if server.vm_state == "error" and not server.is_launched:
            return  # so may those of a server whose create failed
        if port.host != server.host:
            bindings = self._ports.bindings(port.id)
            is_active = any(each.status == "ACTIVE" for each in bindings)
            ask = [repairs.ask_host(port.host, server.uuid)] if port.host else []
            yield _finding(
                "port_on_other_host", port, subject, server, context.fleet,
                f"is bound to {port.host or 'no host'}, and its server {server.uuid} ({server.name}) is on"
                f" {server.host}",
                (MOVED + GUEST_MAY_BE_THERE * bool(port.host)) if is_active or not bindings else NONE_ACTIVE,
                [*ask, *([] if server.vm_state == "shelved" else _rebind(port, server.host, bindings)),
                 *repairs.replug(server)],
                bindings=[[each.host, each.status] for each in bindings],
            )  # fmt: skip
        elif port.vif_type == FAILED:
            yield _finding(
                "port_binding_failed", port, subject, server, context.fleet,
                f"could not be bound to {port.host}: server {server.uuid} ({server.name}) has no network by it",
                "the host's network agent was down, or does not reach the network, when the port was bound",
                [Command(f"openstack network agent list --host {port.host}"),
                 Command(f"openstack port unset --host {port.id}"), _set_host(port.id, server.host),
                 *repairs.replug(server)],
            )  # fmt: skip


def _bandwidth(subject: Subject, server: Instance, ports: Sequence[Port], fleet: Fleet) -> Iterator[Finding]:
    """Judge one server, unless it holds another host than its own: a finding by itself."""
    node, roots = fleet.node_of(server), fleet.roots(subject.held)
    rows = subject.held.rows if subject.held else ()
    held = _sums((row.resource_class, row.used) for row in rows if row.of_port)
    wanted = _sums(amount for each in ports for amount in each.wants.items())
    if server.vm_state == "shelved_offloaded" or subject.held is None or roots != [node] or held == wanted:
        return
    too_much = any(held[name] > wanted[name] for name in held)
    yield Finding(
        kind=WRONG,
        subject=server.uuid,
        name=server.name,
        since=max([subject.touched, *(each.touched for each in ports)]),
        text=f"server {server.uuid} ({server.name}) holds {_words(held)} for its ports, which ask for {_words(wanted)}",
        cause="an attach or a detach of a port was interrupted, a port was deleted, its policy was changed, or the"
        " server's allocation was made anew without its ports",
        evidence={"ports": {each.id: each.revision for each in ports}, "server": evidence_of(subject, fleet)},
        commands=[
            *[repairs.release(server.uuid)] * too_much,
            repairs.forget_providers(server.uuid),
            *repairs.heal(server.uuid),
        ],
    )


def _sums(amounts: Iterable[tuple[str, int]]) -> Counter[str]:
    found = Counter[str]()
    for name, amount in amounts:
        found[name] += amount
    return found


def _words(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in sorted(amounts.items())) or "nothing"


def _rebind(port: Port, host: str, bindings: Sequence[Binding]) -> list[Command]:
    """Return what binds a port to a host.

    Neutron changes no port that has bindings and no active one, and makes none of them active: only a new binding to
    a host to which it has none becomes the active one.
    """
    has_own = any(each.host == host for each in bindings)
    if bindings and all(each.status != "ACTIVE" for each in bindings):
        others = [each.host for each in bindings if each.host != host]
        return [*[_delete_binding(port.id, host)] * has_own, _add_binding(port.id, host),
                *(_delete_binding(port.id, each) for each in others)]  # fmt: skip
    if not has_own:
        return [_set_host(port.id, host)]
    return [_activate_binding(port.id, host), *[_delete_binding(port.id, port.host)] * bool(port.host)]


def _set_host(port: str, host: str) -> Command:
    return Command(f"openstack port set --host {host} {port}")


def _add_binding(port: str, host: str) -> Command:
    body = f' -H "Content-Type: application/json" -d \'{{"binding": {{"host": "{host}"}}}}\''
    return _of_bindings("POST", port, "", body)


def _delete_binding(port: str, host: str) -> Command:
    return _of_bindings("DELETE", port, f"/{host}")


def _activate_binding(port: str, host: str) -> Command:
    """Make a binding the active one. To move a port to a host to which it has another binding fails with 500."""
    return _of_bindings("PUT", port, f"/{host}/activate")


def _of_bindings(verb: str, port: str, path: str, body: str = "") -> Command:
    """The client has no command for bindings. Neutron's default policy asks for the role service."""
    return Command(
        f"curl --fail-with-body -X {verb} {repairs.TOKEN}{body}"
        f' "{repairs.endpoint("network")}/v2.0/ports/{port}/bindings{path}"'
        "  # as a user with the role service"
    )


def _with_servers(ports: Sequence[Port], context: CheckContext) -> Iterator[tuple[Port, Subject]]:
    subjects = context.subjects(each.server for each in ports)
    for each in ports:
        yield each, subjects[each.server]


def _finding(
    kind: str, port: Port, subject: Subject, server: Instance | None, fleet: Fleet, text: str, cause: str,
    commands: list[Command], **evidence: object,
) -> Finding:  # fmt: skip
    return Finding(
        kind=kind,
        subject=port.id,
        name=server.name if server else "",
        since=max(port.touched, subject.touched),
        text=f"port {port.id} {text}",
        cause=cause,
        evidence={
            "port": {"host": port.host, "vif_type": port.vif_type, "status": port.status, "revision": port.revision},
            "server": evidence_of(subject, fleet),
            **evidence,
        },
        commands=commands,
        note=repairs.not_rebooted(server) if server and kind in REPLUGGED else "",
    )
