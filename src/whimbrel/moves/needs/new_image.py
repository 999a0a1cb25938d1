"""Whether a host may keep a server that gets another image.

Invariant: nothing is claimed by a rebuild, so only the image counts: its filters, its traits, and that it asks for the
same resources as the old one.
Source: reference of Nova 34, section 1.5: the filters that Nova marks "run on rebuild".
"""

from collections.abc import Mapping

from whimbrel.domain.errors import Invalid
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.host import Host
from whimbrel.moves.facts import MoveFacts, asks_for_hardware, machine_of
from whimbrel.moves.needs.agent_releases import too_old_for_hardware
from whimbrel.moves.needs.resource_request import traits_of_hardware
from whimbrel.ports.cloud import Cloud
from whimbrel.scheduling.filters.by_machine import machine
from whimbrel.scheduling.filters.by_name import FILTERS, enabled
from whimbrel.scheduling.request import Request
from whimbrel.scheduling.requirements.numa import nodes_of
from whimbrel.scheduling.requirements.server import resource_request
from whimbrel.scheduling.snapshot import Snapshot

ON_REBUILD = ("ImagePropertiesFilter", "IsolatedHostsFilter", "AggregateImagePropertiesIsolation")


def check_new_image(flavor: Flavor, old: Mapping[str, str], new: Mapping[str, str], *, local_root: bool) -> None:
    """old, new: properties of the images. Raises: Invalid: the new image needs a new claim."""
    if nodes_of(flavor, old) != nodes_of(flavor, new):
        raise Invalid(
            "An instance's NUMA topology cannot be changed as part of a rebuild: the new image asks for another."
        )
    claims = [resource_request(flavor, properties, has_local_root=local_root).own for properties in (old, new)]
    if claims[0] != claims[1]:
        raise Invalid(
            f"The new image asks for {_listed(claims[1])}, the server has {_listed(claims[0])}: a rebuild cannot change"
            " that."
        )


async def reason_against_image(facts: MoveFacts, old: Mapping[str, str], cloud: Cloud) -> str | None:
    """Return why the source must not run the image of the facts; None: it may. old: properties of the present image."""
    assert facts.source, "a rebuilt server has a host"
    fleet = await cloud.fleets.now()
    host_index = fleet.row.get(facts.source.host)
    if host_index is None:
        return None  # a host that has just been registered
    snapshot = Snapshot(
        fleet, await cloud.placement.capacity(fleet.providers), cloud.clock.now(), cloud.rules.scheduler
    )
    request = Request(
        resources=resource_request(facts.new_flavor, facts.image_properties, has_local_root=facts.has_local_root),
        flavor=facts.new_flavor,
        image_id=facts.image_id,
        image_properties=facts.image_properties,
        machine=machine_of(facts),
        project=facts.owner.project,
    )
    for name in enabled(snapshot.rules):
        for constraint in FILTERS[name](request, snapshot) if name in ON_REBUILD else ():
            if not constraint.passes[host_index]:
                return f"{constraint.name}: {constraint.words}"
    for constraint in machine(request, snapshot):
        if not constraint.passes[host_index]:
            return constraint.words
    if (release := await _release_without_hardware(facts, fleet.hosts[host_index], cloud)) is not None:
        return f"its agent is of release {release}, which gives all guests the same hardware"
    had = resource_request(facts.new_flavor, old, has_local_root=facts.has_local_root).required
    for trait in (*request.resources.required, *traits_of_hardware(facts)):
        if trait not in had and not snapshot.capacity.tree_has_trait(trait)[host_index]:
            return f"it lacks the trait {trait}"
    return None


async def _release_without_hardware(facts: MoveFacts, host: Host, cloud: Cloud) -> str | None:
    return await too_old_for_hardware(host, cloud) if asks_for_hardware(facts) else None


def _listed(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in sorted(amounts.items()))
