"""Providers in Placement that a compute node left: its service was deleted, or its host was installed anew."""

from collections.abc import Iterable, Iterator

from whimbrel.doctor.check_context import CheckContext
from whimbrel.doctor.doctor_finding import Command, Finding
from whimbrel.doctor.nova_records import LostProvider

KINDS = frozenset({"provider_left"})
SHOWN = 10
"""How many consumers are named in a text."""


def lost(found: Iterable[LostProvider], context: CheckContext) -> Iterator[Finding]:
    """Judge providers whose compute node is gone.

    Names of providers are unique: while one is left, a new compute node of that name cannot have its own, and
    nova-compute cannot report there. Source: SchedulerReportClient._create_resource_provider.
    """
    for each in found:
        if context.has_changed(each.touched):
            continue
        text = f"resource provider {each.uuid} ({each.name}) is of no compute node"
        if each.namesake:
            text += (
                f"; nova-compute of {each.namesake.host} cannot make one for its node {each.namesake.uuid}, as the name"
                " is taken: no server can be placed there"
            )
        note = ""
        if each.holders:
            shown = ", ".join(each.holders[:SHOWN])
            more = f" and {len(each.holders) - SHOWN} more" if len(each.holders) > SHOWN else ""
            note = f"it cannot be deleted while it is held by {shown}{more}: release what they hold first, or move them"
        yield Finding(
            kind="provider_left",
            subject=each.uuid,
            name=each.name,
            since=each.touched or None,
            text=text,
            cause="its nova-compute service was deleted while something was still held there, or its host was renamed"
            " or installed anew",
            evidence={
                "below": each.below, "holders": each.holders, "written": each.touched,
                "namesake": each.namesake.uuid if each.namesake else None,
            },
            commands=[Command(f"openstack resource provider delete {uuid}") for uuid in (*each.below, each.uuid)],
            note=note,
        )  # fmt: skip
