"""The networks and security groups of a POST: existence, permission and defaults.

Invariant: only resources that the request names are looked up.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from whimbrel.api.http.call import Call
from whimbrel.domain.errors import Conflict, Forbidden, Invalid, NotFound
from whimbrel.domain.ids import ProjectId
from whimbrel.domain.server_devices import RequestedNic
from whimbrel.ports.services.network import NetworkInfo, Port

PORTS_WITH_REQUESTS = 72
"""The first minor version in which a server may be created with a port that requests guaranteed resources."""


async def read(call: Call, requested: Mapping[str, Any], *, several: bool) -> tuple[RequestedNic, ...]:
    """Parse `networks` of a server to be created. several: the request is for several servers.

    Raises: Invalid; Forbidden: an external network; Conflict: a port is in use, or the choice is ambiguous.
    """
    named = requested.get("networks")
    if named == "none":
        return ()
    if named == "auto" or not named:
        return await by_default(call, call.principal.project_id)
    call.check("os_compute_api:servers:create:attach_network")
    nics = [_nic(one, several=several) for one in named]
    twice = [nic.port_id for nic in nics if nic.port_id and [other.port_id for other in nics].count(nic.port_id) > 1]
    if twice:
        raise Invalid(f"Port {twice[0]} is named twice.")
    networks = await _networks(call, [nic.network_id for nic in nics if nic.network_id])
    return tuple([await _checked(call, nic, networks) for nic in nics])


def _nic(named: Mapping[str, Any], *, several: bool) -> RequestedNic:
    port, network, address = named.get("port"), named.get("uuid"), named.get("fixed_ip")
    if port is None and network is None:
        raise Invalid("Bad network format: it has neither a uuid nor a port.")
    if port is not None and address is not None:
        raise Invalid(f"Specified Fixed IP '{address}' cannot be used with port '{port}': the port has its own.")
    if several and port is not None:
        raise Invalid("Unable to launch multiple instances with a single configured port ID: launch them one by one.")
    if several and address is not None:
        raise Invalid("Failed to launch instances: max_count cannot be greater than 1 with a fixed_ip.")
    return RequestedNic(network_id=None if port else network, port_id=port, fixed_ip=address, tag=named.get("tag"))


async def _checked(call: Call, nic: RequestedNic, networks: Mapping[str, NetworkInfo]) -> RequestedNic:
    if nic.port_id is None:
        assert nic.network_id, "a nic has a port or a network"
        check_network(call, nic.network_id, networks, nic.fixed_ip)
        return nic
    try:
        port = await own_port(call, nic.port_id, call.principal.project_id)
    except NotFound as error:
        raise Invalid(error.reason) from None
    if port.requests and call.minor < PORTS_WITH_REQUESTS:
        raise Invalid(
            f"Using a port with a resource request, as {port.id} has one, needs microversion 2.{PORTS_WITH_REQUESTS}."
        )
    return RequestedNic(network_id=port.network_id, port_id=port.id, tag=nic.tag)


async def own_port(call: Call, port_id: str, project: ProjectId) -> Port:
    """Return a free port of a project, of which its server must be.

    Raises: NotFound; Invalid: an administrator names a port of another project, which Nova refuses too; Conflict: it is
    in use.
    """
    port = await call.cloud.network.port(port_id)
    if port.project_id != project:
        if call.is_admin:
            raise Invalid(f"Port {port_id} not usable for instance: they are of different projects.")
        raise NotFound(f"Port id {port_id} could not be found.")
    if port.device_id:
        raise Conflict(f"Port {port_id} is still in use.")
    return port


async def _networks(call: Call, ids: Sequence[str]) -> dict[str, NetworkInfo]:
    found = await call.networks(call.principal.project_id, ids) if ids else []
    return {network.id: network for network in found}


def check_network(
    call: Call, network_id: str, networks: Mapping[str, NetworkInfo], address: str | None = None
) -> NetworkInfo:
    """Return the network of this id. address: the one that is requested there.

    Raises: Invalid: no such network, or no subnet; Forbidden: it is external, or another project's whose addresses
    the requester may not choose.
    """
    network = networks.get(network_id)
    if network is None:
        raise Invalid(f"Network {network_id} could not be found.")
    if not network.subnets:
        raise Invalid(f"Network {network_id} requires a subnet in order to boot instances on.")
    if network.is_external and not network.is_shared and not call.may("network:attach_external_network"):
        raise Forbidden(f"It is not allowed to create an interface on external network {network_id}")
    if address and network.project_id != call.principal.project_id and not call.is_admin:
        raise Forbidden(f"It is not allowed to choose an address on network {network_id} of another project")
    return network


async def by_default(call: Call, project: ProjectId) -> tuple[RequestedNic, ...]:
    """Return the project's only network, else the only shared one, else none.

    Raises: Conflict: there are several.
    """
    found = [one for one in await call.own_network.networks(project) if one.subnets]
    own = [one for one in found if one.project_id == project and not one.is_external]
    usable = own or [one for one in found if one.is_shared]
    if len(usable) > 1:
        raise Conflict("Multiple possible networks found, use a Network ID to be more specific.")
    return tuple(RequestedNic(network_id=one.id) for one in usable)


async def security_groups(call: Call, names: Sequence[str]) -> dict[str, str]:
    """Return security groups by name or id: id -> name; empty for the project's default alone.

    Raises: Invalid: there is no such group; Conflict: several have this name.
    """
    wanted = list(dict.fromkeys(names))
    if wanted in ([], ["default"]):
        return {}
    known = await call.cloud.network.security_groups(call.principal.project_id)
    return {group: known[group] for group in (find_group(known, name) for name in wanted)}


def find_group(known: Mapping[str, str], wanted: str) -> str:
    """Return the id of the group of this id or name. Raises: Invalid: there is none; Conflict: there are several."""
    if wanted in known:
        return wanted
    found = [group for group, name in known.items() if name == wanted]
    if not found:
        raise Invalid(f"Unable to find security_group with name or id '{wanted}'")
    if len(found) > 1:
        raise Conflict(f"Multiple security_group matches found for name '{wanted}', use an ID to be more specific.")
    return found[0]
