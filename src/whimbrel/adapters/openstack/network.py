"""The network service over HTTP: Neutron v2.0, or the embedded one.

Invariant: a missing response, or one that reports a failure of the service, is Unavailable, never a refusal.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from whimbrel.adapters.openstack import neutron
from whimbrel.adapters.openstack.network_proxies import MOST_IN_A_QUERY, HttpNetworkProxies
from whimbrel.adapters.openstack.neutron import No
from whimbrel.adapters.openstack.segments import segments
from whimbrel.adapters.openstack.service_client import Query
from whimbrel.domain.batches import batches
from whimbrel.domain.errors import Conflict, NotFound, Refused, Unavailable
from whimbrel.domain.ids import HostName, ProjectId, ServerId
from whimbrel.domain.server_devices import FixedIp
from whimbrel.ports.services.network import Binding, NetworkInfo, NewPort, Port, Subnet
from whimbrel.ports.stores.pages import Page

PORTS = "/v2.0/ports"
TRIES = 8  # attempts to take a port that others change too
FAILED = "binding_failed"

MARK = "whimbrel_unbound"
"""Key of the profile of an unbound port: changed where an unbinding would change nothing else, to be noticed."""

OURS = (
    "allocation", "migrating_to", "pci_slot", "pci_vendor_info", "card_serial_number", "pf_mac_address", "vf_num", MARK,
)  # fmt: skip
"""Keys of a binding's profile that belong to the compute service: they are removed with the server."""


class HttpNetwork(HttpNetworkProxies):
    """Implements ports.services.network.Network."""

    # Networks and groups

    async def networks(self, project: ProjectId | None, ids: Sequence[str] | None = None) -> list[NetworkInfo]:
        found: dict[str, NetworkInfo] = {}
        queries = (
            [[("id", each) for each in some] for some in batches(ids, MOST_IN_A_QUERY)]
            if ids is not None
            else _seen_by(project)
        )
        for query in queries:
            answer = await self._get("/v2.0/networks", query)
            found |= {network.id: network for network in neutron.networks(answer)}
        return [
            network
            for network in found.values()
            if project in (None, network.project_id) or network.is_shared or network.is_external
        ]

    async def segments(self, network_id: str) -> dict[str, str]:
        return segments(await self._get("/v2.0/subnets", [("network_id", network_id)]))

    async def subnets(self, ids: Collection[str]) -> list[Subnet]:
        found: list[Subnet] = []
        for some in batches(sorted(ids), MOST_IN_A_QUERY):
            found += neutron.subnets(await self._get("/v2.0/subnets", [("id", each) for each in some]))
        return found

    async def security_groups(self, project: ProjectId) -> dict[str, str]:
        return neutron.groups(await self._get("/v2.0/security-groups", [("project_id", project)]))

    # Ports

    async def port(self, port_id: str) -> Port:
        return neutron.port(await self._get(f"{PORTS}/{port_id}"))

    async def ports_of(self, servers: Sequence[ServerId], *, with_requests: bool = True) -> list[Port]:
        found: list[Port] = []
        for some in batches(servers, MOST_IN_A_QUERY):
            fields = () if with_requests else neutron.FIELDS
            query = [("device_id", server) for server in some] + [("fields", name) for name in fields]
            found += neutron.ports(await self._get(PORTS, query))
        return found

    async def create_port(self, new: NewPort) -> Port:
        requested: dict[str, Any] = {
            "network_id": new.network_id,
            "project_id": new.project_id,
            "device_id": new.server,
            "device_owner": new.device_owner,
            "mac_address": new.mac,
            "admin_state_up": True,
        }
        if new.fixed_ip:
            requested["fixed_ips"] = [{"ip_address": new.fixed_ip}]
        if new.security_groups:
            requested["security_groups"] = list(new.security_groups)
        try:
            return neutron.port(await self._send("POST", PORTS, {"port": requested}))
        except No as no:
            # The address may be that of this port: an earlier request created it.
            query = [("network_id", new.network_id), ("mac_address", new.mac)]
            there = neutron.ports(await self._get(PORTS, query)) if no.is_conflict else []
            if there:
                return there[0]
            raise
        except NotFound as missing:
            raise Refused(missing.reason) from missing

    async def delete_port(self, port_id: str) -> None:
        await self._delete(f"{PORTS}/{port_id}")

    async def take_port(self, port_id: str, server: ServerId, device_owner: str) -> Port:
        for _ in range(TRIES):
            port = await self.port(port_id)
            if port.device_id not in ("", server):
                raise Refused(f"Port {port_id} is still in use.")
            try:
                await self._change(port_id, {"device_id": server, "device_owner": device_owner}, port.revision)
            except No as no:
                if not no.is_late:
                    raise
                continue
            # Neutron forgets the revision if it repeats a change that met another: the port may be another server's.
            taken = await self.port(port_id)
            if taken.device_id == server:
                return taken
        raise Refused(f"Port {port_id} is changed by others all the time.")

    async def set_owner(self, port_id: str, device_owner: str) -> None:
        await self._change(port_id, {"device_owner": device_owner})

    async def free_port(self, port_id: str, server: ServerId, revision: int | None = None) -> None:
        for _ in range(TRIES):
            try:
                return await self._free(port_id, server, revision)
            except NotFound:
                return None
            except Conflict:
                if revision is not None:
                    raise
        raise Conflict(f"Port {port_id} is changed by others all the time.")

    async def _free(self, port_id: str, server: ServerId, revision: int | None) -> None:
        port = await self.port(port_id)
        if port.device_id != server:
            return
        if revision not in (None, port.revision):
            raise Conflict(f"Port {port_id} was changed meanwhile.")
        seen = await self._delete_inactive(port_id, port.revision)
        theirs = {name: value for name, value in port.profile.items() if name not in OURS}
        nobodys = {"device_id": "", "device_owner": "", "binding:host_id": "", "binding:profile": theirs}
        await self._change_seen(port_id, nobodys, seen)

    async def port_holders(self, after: str | None, limit: int) -> Page[ServerId]:
        query = [("fields", name) for name in ("id", "device_id", "device_owner")]
        query += [
            ("sort_key", "id"),
            ("sort_dir", "asc"),
            ("limit", str(limit)),
            *([("marker", after)] if after else []),
        ]
        found = neutron.holders(await self._get(PORTS, query))
        ours = [ServerId(one.device_id) for one in found if one.device_id and one.is_a_servers]
        return Page(ours, found[-1].id if len(found) == limit else None)

    # Bindings

    async def bind(self, port: Port, host: HostName, profile: Mapping[str, Any], device_owner: str) -> Port:
        merged = _without_nothing({**port.profile, **profile, MARK: None})
        requested = {"binding:host_id": host, "binding:profile": merged, "device_owner": device_owner}
        seen = port.revision
        if port.host not in ("", host):  # Neutron does not bind a port to a host at which a binding waits
            seen = await self._delete_inactive(port.id, seen, at=host)
        bound = await self._change_seen(port.id, requested, seen)
        if bound.vif_type == FAILED:
            raise Refused(f"Port {port.id} cannot be bound to host {host}.")
        return bound

    async def unbind(self, port: Port, profile: Mapping[str, Any], device_owner: str) -> None:
        seen = await self._delete_inactive(port.id, port.revision)
        kept = _without_nothing({**port.profile, **profile, MARK: None})
        if (port.host, port.profile, port.device_owner) == ("", kept, device_owner):
            kept[MARK] = str(seen)  # Neutron counts real changes only
        unbound = {"binding:host_id": "", "binding:profile": kept, "device_owner": device_owner}
        await self._change_seen(port.id, unbound, seen)

    async def set_security_groups(self, port: Port, groups: Sequence[str]) -> None:
        try:
            await self._change_seen(port.id, {"security_groups": list(groups)}, port.revision)
        except NotFound as missing:
            await self.port(port.id)  # raises if the port is missing; otherwise a group is
            raise Refused(missing.reason) from missing

    async def set_fixed_ips(self, port: Port, addresses: Sequence[FixedIp]) -> None:
        sent = [
            {"subnet_id": each.subnet_id, **({"ip_address": each.address} if each.address else {})}
            for each in addresses
        ]
        await self._change_seen(port.id, {"fixed_ips": sent}, port.revision)

    async def bindings(self, port_id: str) -> list[Binding]:
        try:
            return neutron.bindings(await self._get(_bindings(port_id)))
        except Refused:  # Neutron lists no bindings of unowned ports
            port = await self.port(port_id)
            return [neutron.active_binding(port)] if port.host else []

    async def create_binding(self, port_id: str, host: HostName, vnic_type: str, profile: Mapping[str, Any]) -> Binding:
        whole = _without_nothing(profile)
        requested = {"host": host, "vnic_type": vnic_type, "profile": whole}
        try:
            return neutron.binding(await self._send("POST", _bindings(port_id), {"binding": requested}))
        except No as no:
            if no.name != "PortBindingAlreadyExists":
                raise
        except Unavailable:
            await self.port(port_id)  # Neutron answers 500 if the port is missing
            raise
        place = f"{_bindings(port_id)}/{host}"
        there = neutron.binding(await self._get(place))
        if there.is_active or there.is_connected:
            return neutron.binding(await self._send("PUT", place, {"binding": {"profile": whole}}))
        await self._delete(place)  # Neutron neither changes nor connects a binding that has lost its activity
        return neutron.binding(await self._send("POST", _bindings(port_id), {"binding": requested}))

    async def activate_binding(self, port_id: str, host: HostName) -> None:
        try:
            await self._send("PUT", f"{_bindings(port_id)}/{host}/activate")
        except No as no:
            if no.name != "PortBindingAlreadyActive":
                raise
        except Unavailable:
            if not await self._activate_only(port_id, host):
                raise

    async def _activate_only(self, port_id: str, host: HostName) -> bool:
        """Activate a binding of a port that has no active one, which Neutron answers with 500. Return False if it has.

        Without an active binding a new one becomes it. Raises: as create_binding does.
        """
        bindings = await self.bindings(port_id)  # raises if the port is missing, which is answered with 500, too
        waiting = next((each for each in bindings if each.host == host), None)
        if waiting is None or any(each.is_active for each in bindings):
            return False
        await self._delete(f"{_bindings(port_id)}/{host}")
        return (await self.create_binding(port_id, host, waiting.vnic_type, waiting.profile)).is_active

    async def delete_bindings(self, ports: Sequence[str], host: HostName) -> None:
        for some in batches(ports, MOST_IN_A_QUERY):
            query = [("id", port_id) for port_id in some] + [("fields", name) for name in ("id", "binding:host_id")]
            for port_id, active in neutron.hosts(await self._get(PORTS, query)).items():
                if active == host:  # Neutron would delete it
                    raise Refused(f"The binding of port {port_id} on host {host} is the active one.")
                await self._delete(f"{_bindings(port_id)}/{host}")

    async def _delete_inactive(self, port_id: str, revision: int | None, at: HostName | None = None) -> int | None:
        """Delete the inactive bindings of a port that has a server, and return the port's revision after that.

        revision: before it. at: only the one to this host. Neutron lists no bindings of unowned ports.
        Raises: NotFound.
        """
        waiting = [binding.host for binding in await self.bindings(port_id) if not binding.is_active]
        waiting = [host for host in waiting if at in (None, host)]
        for host in waiting:
            await self._delete(f"{_bindings(port_id)}/{host}")
        return (await self.port(port_id)).revision if waiting else revision

    # Requests

    async def _change(self, port_id: str, requested: Mapping[str, Any], revision: int | None = None) -> Port:
        """Change a port. revision: only if it still has this revision."""
        headers = {} if revision is None else {"If-Match": f"revision_number={revision}"}
        return neutron.port(await self._send("PUT", f"{PORTS}/{port_id}", {"port": requested}, headers))

    async def _change_seen(self, port_id: str, requested: Mapping[str, Any], revision: int | None) -> Port:
        """Change a port that was read before. Raises: Conflict: it has changed since."""
        try:
            return await self._change(port_id, requested, revision)
        except No as no:
            if not no.is_late:
                raise
            raise Conflict(f"Port {port_id} was changed meanwhile.") from no

    async def _get(self, path: str, query: Query = ()) -> bytes:
        return neutron.checked(await self._service.ask("GET", path, query=query))

    async def _send(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> bytes:
        return neutron.checked(await self._service.ask(method, path, body=body, headers=headers))

    async def _delete(self, path: str) -> None:
        try:
            await self._send("DELETE", path)
        except NotFound:
            return


def _seen_by(project: ProjectId | None) -> list[list[tuple[str, str]]]:
    """Return the queries of all networks that a project sees."""
    return [[]] if project is None else [[("project_id", project)], [("shared", "true")], [("router:external", "true")]]


def _bindings(port_id: str) -> str:
    return f"{PORTS}/{port_id}/bindings"


def _without_nothing(profile: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in profile.items() if value is not None}
