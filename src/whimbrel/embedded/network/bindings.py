"""Bindings of a server's port to hosts: one is active, others wait for activation by a move.

Source: Neutron's extension binding-extended, and its ML2 plugin. A binding that is no longer active is cleared: it
connects nothing, cannot be changed, and still connects nothing if it is activated again. A new one takes its place.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from whimbrel.embedded.network import vifs
from whimbrel.embedded.network.bodies import Body, Text, one
from whimbrel.embedded.network.ports import Profile, VnicType, binding_of
from whimbrel.embedded.network.request import Call, pruned
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.embedded.network_store import BINDING_FAILED, OLDEST_FIRST, UNBOUND, Binding, Port, Query, Segment
from whimbrel.ports.services.network_errors import (
    PortBindingAlreadyActive,
    PortBindingAlreadyExists,
    PortBindingNotFound,
    PortNotFound,
)


class NewBinding(Body, kw_only=True):
    host: Text
    vnic_type: VnicType = "normal"
    profile: Profile = None


class ChangedBinding(Body, kw_only=True):
    host: Text | UnsetType = UNSET
    vnic_type: VnicType | UnsetType = UNSET
    profile: Profile | UnsetType = UNSET


Edit = Callable[[Port, Sequence[Segment]], Port]
"""Returns the changed port. The segments of its network determine where it can be connected."""


def view(binding: Binding) -> dict[str, Any]:
    return {
        "host": binding.host,
        "status": "ACTIVE" if binding.active else "INACTIVE",
        "vnic_type": binding.vnic_type,
        "vif_type": binding.vif_type,
        "vif_details": binding.vif_details,
        "profile": binding.profile,
    }


async def search(call: Call) -> Reply:
    port = _of_server(await call.seen(Port, call.path("id")))
    fields = call.request.query_params.getlist("fields")
    wanted = {name: call.request.query_params[name] for name in ("host", "status") if name in call.request.query_params}
    views = [view(binding) for binding in port.bindings]
    found = [each for each in views if all(each[name] == value for name, value in wanted.items())]
    return Reply({"bindings": [pruned(each, fields) for each in found]})


async def show(call: Call) -> Reply:
    port = _of_server(await call.seen(Port, call.path("id")))
    return Reply({"binding": view(_binding(port, call.path("host")))})


async def create(call: Call) -> Reply:
    requested = await one(call, "binding", NewBinding)
    if not requested.host:
        raise Problem(400, "Invalid input for host. Reason: a binding is to a host.")

    hosts = await call.context.nics.including(requested.host)

    def edit(port: Port, segments: Sequence[Segment]) -> Port:
        if binding_of(_of_server(port), requested.host):
            raise PortBindingAlreadyExists(f"Binding for port {port.id} on host {requested.host} already exists.")
        binding = _bound(hosts, segments, port, requested.host, requested.vnic_type, requested.profile or {})
        return replace(port, bindings=(*port.bindings, replace(binding, active=port.active_binding is None)))

    port = await _edited(call, edit)
    return Reply({"binding": view(_binding(port, requested.host))}, 201)


async def update(call: Call) -> Reply:
    requested, host = await one(call, "binding", ChangedBinding), call.path("host")
    if requested.host not in (UNSET, host):
        raise Problem(400, "Invalid input for host. Reason: a binding stays with its host.")

    hosts = await call.context.nics.including(host)

    def edit(port: Port, segments: Sequence[Segment]) -> Port:
        old = _binding(_of_server(port), host)
        vnic_type = old.vnic_type if requested.vnic_type is UNSET else requested.vnic_type
        profile = old.profile if requested.profile is UNSET else requested.profile or {}
        if not (old.active or old.works):
            raise _failure()
        now = _bound(hosts, segments, port, host, vnic_type, profile)
        now = replace(now, active=old.active)
        return replace(port, bindings=tuple(now if each is old else each for each in port.bindings))

    port = await _edited(call, edit)
    return Reply({"binding": view(_binding(port, host))})


async def activate(call: Call) -> Reply:
    """Activate a binding as it is: one that was cleared when it lost its activity still connects nothing."""
    host = call.path("host")

    def edit(port: Port, segments: Sequence[Segment]) -> Port:
        active = _of_server(port).active_binding
        if active and active.host == host:
            raise PortBindingAlreadyActive(f"Binding for port {port.id} on host {host} is already active.")
        old = _binding(port, host)
        if active is None:
            raise _failure()
        bindings = (replace(each, active=True) if each is old else _cleared(each) for each in port.bindings)
        return replace(port, bindings=tuple(bindings), vnic_type=old.vnic_type, profile=old.profile)

    port = await _edited(call, edit)
    return Reply(view(_binding(port, host)))


async def delete(call: Call) -> Reply:
    host = call.path("host")

    async def edit(port: Port) -> Port:  # also of a port that its server has released
        gone = _binding(port, host)  # the active one, too: then the port has none
        return vifs.settled(replace(port, bindings=tuple(each for each in port.bindings if each is not gone)))

    await _changed(call, edit)
    return NO_CONTENT


async def _edited(call: Call, edit: Edit) -> Port:
    """Change the bindings of the port in the path, and notify its server."""

    async def change(port: Port) -> Port:
        where = {"network_id": [port.network_id]}
        segments = await call.store.search(Segment, Query(where=where, order=OLDEST_FIRST))
        return vifs.settled(edit(port, segments))

    try:
        return await _changed(call, change)
    except PortNotFound as missing:
        raise _failure() from missing


async def _changed(call: Call, edit: Callable[[Port], Awaitable[Port]]) -> Port:
    before, now = await call.changed(Port, call.path("id"), edit)
    call.context.events.tell(vifs.news(before, now))
    return now


def _bound(
    hosts: vifs.Hosts, segments: Sequence[Segment], port: Port, host: str, vnic_type: str, profile: Mapping[str, Any]
) -> Binding:
    vif_type, details = vifs.bind(hosts, segments, host, vnic_type, profile)
    if vif_type == BINDING_FAILED:
        message = f"Binding for port {port.id} on host {host} could not be created or updated."
        raise Problem(500, message, "PortBindingError")
    return Binding(
        host=host, active=False, vnic_type=vnic_type, vif_type=vif_type, vif_details=details, profile=dict(profile)
    )


def _failure() -> Problem:
    """Return what Neutron answers to what it does not foresee here."""
    return Problem(
        500, "Request Failed: internal server error while processing your request.", "HTTPInternalServerError"
    )


def _cleared(binding: Binding) -> Binding:
    return replace(binding, active=False, vif_type=UNBOUND, vif_details={}) if binding.active else binding


def _binding(port: Port, host: str) -> Binding:
    found = binding_of(port, host)
    if found is None:
        raise PortBindingNotFound(f"Binding for port {port.id} on host {host} could not be found.")
    return found


def _of_server(port: Port) -> Port:
    """Raises: Problem: only ports of servers move."""
    if not port.is_of_server:
        message = f"Bad port request: Invalid port {port.id}. Operation only valid on compute ports."
        raise Problem(400, message, "BadRequest")
    return port
