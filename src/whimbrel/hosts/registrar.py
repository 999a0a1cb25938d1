"""Registers hosts from their descriptions: rows, PCI devices, inventories, traits, and the resources of their NICs.

Invariant: what equals the description is not written, and what operators set is kept. A registration that was cut off
is completed by the next one.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from whimbrel.domain.errors import Invalid, NotFound
from whimbrel.domain.host import Host
from whimbrel.domain.host_description import HostDescription
from whimbrel.domain.host_nics import HostNet
from whimbrel.domain.ids import CellName, HostName, ProviderId
from whimbrel.hosts.zoning import put_into_zones
from whimbrel.placement.inventory import TRAITS_OF_HOSTS, besides, of_host
from whimbrel.ports.cloud import Cell, Cloud
from whimbrel.ports.placement.placement import HostOffer
from whimbrel.ports.stores.hosts import SAID_BY_THE_HOST, AgentInfo

ReportNics = Callable[[Sequence[HostNet]], Awaitable[None]]
"""Reports the resources of hosts' NICs to Placement. Raises: Unavailable."""


def joined_reason(host: HostName) -> str:
    """Return why a host that has just joined is disabled."""
    return f"joined; enable it with: whimbrel host enable {host}"


@dataclass(frozen=True)
class Registrar:
    """Registers the hosts of a cloud."""

    cloud: Cloud
    report_nics: ReportNics

    async def register_all(self, cell: CellName, described: Sequence[HostDescription]) -> None:
        """Register the hosts whose agents are in this process, without their zones. Raises: Unavailable."""
        hosts = self.cloud.cell(cell).hosts
        known, stored = {host.name: host for host in await hosts.all()}, await hosts.descriptions()
        rows = [_row(self.cloud, cell, each) for each in described]
        changed = {
            each.name: (row, each)
            for row, each in zip(rows, described, strict=True)
            if each.name not in known
            or stored.get(each.name) != each.without_hardware()
            or not _is_as_known(row, known[each.name])
        }
        if changed:
            texts = {name: description for name, (_, description) in changed.items()}
            known |= {row.name: row for row in await hosts.register_all([row for row, _ in changed.values()], texts)}
        alive = {row.name for row in rows if row.seen_at} - changed.keys()
        await hosts.seen(sorted(alive), self.cloud.clock.now())
        await self._register_resources(cell, described, known)

    async def begin_session(self, cell: CellName, agent: AgentInfo, description: HostDescription) -> Host:
        """Register the host of an agent elsewhere, and begin the agent's session; it begins disabled.

        Its zone is put in force until it has been enabled for the first time; later its operators decide.
        Raises: Invalid: the host is known in another cell; Unavailable.
        """
        row, reason = _row(self.cloud, cell, description), joined_reason(description.name)
        row.enabled, row.disabled_reason = False, reason
        await self._check_place(cell, description.name)
        stored = await self.cloud.cell(cell).hosts.begin_session(row, agent, description)
        await self._register_resources(cell, [description], {stored.name: stored})
        if not stored.enabled and stored.disabled_reason == reason:
            await put_into_zones(self.cloud, {stored.name: description.zone}, {stored.name: stored})
        return stored

    async def describe(self, cell: CellName, session: int, description: HostDescription) -> None:
        """Register the changes of a host. Raises: Superseded: the session is not the newest; Unavailable."""
        row = _row(self.cloud, cell, description)
        stored = await self.cloud.cell(cell).hosts.describe(row, session, description)
        await self._register_resources(cell, [description], {stored.name: stored})

    async def _register_resources(
        self, cell: CellName, described: Sequence[HostDescription], rows: Mapping[HostName, Host]
    ) -> None:
        devices = self.cloud.cell(cell).devices
        has_devices = (await devices.counts()).keys()
        for each in described:
            if each.pci or each.name in has_devices:
                await devices.register(each.name, each.devices)
        await self.cloud.placement.register_hosts([_offer(self.cloud, each, rows[each.name]) for each in described])
        await self.report_nics([each.net for each in described])

    async def _check_place(self, cell: CellName, host: HostName) -> None:
        """Raises: Invalid: the host is known in another cell."""
        try:
            await self.cloud.cell(cell).hosts.get(host)
        except NotFound:
            providers = {each.name: each.id for each in await self.cloud.placement.providers()}
            await check_places(self.cloud.cell(cell), [host], providers)


async def check_places(cell: Cell, names: Sequence[HostName], providers: Mapping[str, ProviderId]) -> None:
    """Raises: Invalid: one of these hosts of the cell is known in another cell. providers: by their names."""
    known = {host.name: host.id for host in await cell.hosts.all()}
    for name in names:
        if providers.get(name) not in (None, known.get(name)):
            raise Invalid(
                f"host '{name}' of cell '{cell.name}' is known to this cloud already, outside of that cell: put it"
                " back where it was, or give one of them another name; if it always was in this cell, restore the"
                " cell's own database, because this is another one"
            )


def _is_as_known(row: Host, known: Host) -> bool:
    return all(getattr(row, name) == getattr(known, name) for name in SAID_BY_THE_HOST)


def _row(cloud: Cloud, cell: CellName, description: HostDescription) -> Host:
    now = cloud.clock.now()
    said = {name: getattr(description, name) for name in SAID_BY_THE_HOST}
    return Host(
        cell=cell,
        id=ProviderId(cloud.ids.uuid()),
        service_id=cloud.ids.uuid(),
        name=description.name,
        seen_at=now if description.answers else 0.0,
        created_at=now,
        **said | {"self_fence_s": description.self_fence_s or None},
    )


def _offer(cloud: Cloud, description: HostDescription, row: Host) -> HostOffer:
    return HostOffer(
        provider=row.id,
        name=row.name,
        inventories=of_host(row, cloud.rules) | besides(description.dedicated_vcpus, description.resources),
        traits=frozenset((*TRAITS_OF_HOSTS, *description.traits)),
        disabled=not row.enabled,
    )
