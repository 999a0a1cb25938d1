"""Server groups whose policy their servers do not follow: two moves or creates at a time, or a host that was forced."""

from collections.abc import Iterable, Iterator, Sequence

from whimbrel.doctor.check_context import CheckContext
from whimbrel.doctor.doctor_finding import Command, Finding
from whimbrel.doctor.nova_records import Group, Instance

KINDS = frozenset({"group_violated"})
RUNNING = ("active", "paused")
MOVABLE = (*RUNNING, "stopped")
NOWHERE = ("shelved_offloaded", "building")
Host = tuple[str, str]
"""A cell and a host."""


def groups(found: Iterable[Group], context: CheckContext) -> Iterator[Finding]:
    """Judge groups with a policy that must be followed. One with a server that is worked on is left out."""
    for group in found:
        members = [each for each in group.members if each.host and each.vm_state not in NOWHERE]
        if any(each.is_worked_on or context.has_changed(each.touched) for each in group.members):
            continue
        by_host: dict[Host, list[Instance]] = {}
        for each in sorted(members, key=lambda each: each.uuid):
            by_host.setdefault((each.cell, each.host or ""), []).append(each)
        if surplus := _surplus(group, by_host):
            yield _violated(group, members, surplus)


def _surplus(group: Group, by_host: dict[Host, list[Instance]]) -> list[Instance]:
    """Return the servers that have to move."""
    if group.policy == "anti-affinity":
        return [each for servers in by_host.values() for each in servers[group.max_per_host :]]
    if group.policy != "affinity" or len(by_host) < 2:
        return []
    most = max(sorted(by_host), key=lambda host: len(by_host[host]))
    return [each for host in sorted(by_host) if host != most for each in by_host[host]]


def _violated(group: Group, members: Sequence[Instance], surplus: Sequence[Instance]) -> Finding:
    hosts = {each.uuid: each.host for each in members}
    moving = {each.uuid for each in surplus}
    stay = next(each.host for each in members if each.uuid not in moving)
    where = ", ".join(f"{each.uuid} ({each.name}) on {each.host}" for each in members)
    return Finding(
        kind="group_violated",
        subject=group.uuid,
        name=group.name,
        since=max(each.touched for each in members),
        text=f"server group {group.uuid} ({group.name}) has the policy {group.policy}, and its servers are {where}",
        cause="two of its servers were placed at the same time, a move had a forced host, or a host was restored",
        evidence={"policy": group.policy, "hosts": hosts, "written": {each.uuid: each.touched for each in members}},
        commands=[
            _move(each, stay if group.policy == "affinity" else None) for each in surplus if each.vm_state in MOVABLE
        ],
    )


def _move(server: Instance, host: str | None) -> Command:
    """host: None: the scheduler chooses one that the policy allows."""
    if server.vm_state in RUNNING:
        to = f" --os-compute-api-version 2.30 server migrate --live-migration --host {host}"
        return Command(f"openstack{to if host else ' server migrate --live-migration'} {server.uuid}")
    to = f" --os-compute-api-version 2.56 server migrate --host {host}" if host else " server migrate"
    return Command(f"openstack{to} {server.uuid}  # and confirm it")
