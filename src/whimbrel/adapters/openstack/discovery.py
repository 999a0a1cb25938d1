"""What a service offers and permits: versions, extensions and rights, asked without changing anything.

The versions and extensions are those that the adapters in this package use.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal

import httpx
import msgspec

from whimbrel.adapters.openstack.administrators_view import OF_ADMINISTRATORS
from whimbrel.adapters.openstack.cinder import HEADERS
from whimbrel.adapters.unanswered import unanswered
from whimbrel.domain.errors import Unavailable

State = Literal["ok", "warning", "failed"]

VOLUME_MICROVERSION = (3, 68)
"""3.44 completes attachments; since 3.67 URLs need no project; 3.68 (both of Yoga) writes an image into a volume."""

NEEDED: Mapping[str, str] = {
    "binding": "hosts of ports",
    "binding-extended": "moves: a port has bindings on two hosts meanwhile",
    "external-net": "networks of other projects",
    "provider": "physical networks, to find hosts that reach them",
    "revision-if-match": "changes of ports that others change too",
    "security-group": "security groups of servers",
    "standard-attr-revisions": "changes of ports that others change too",
}
"""Neutron's extensions without which servers cannot be created or moved, and what for."""

WELCOME: Mapping[str, str] = {
    "multi-provider": "networks of several physical segments",
    "net-mtu": "the MTU of guests' interfaces",
    "port-resource-request": "ports with a minimum bandwidth",
    "port-resource-request-groups": "ports with a minimum bandwidth and a minimum packet rate",
    "router": "floating IPs in addresses of servers",
}
"""Those without which something else is missing."""


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check. advice: what to do; "": nothing."""

    subject: str  # "database", "bus", "identity" ...
    state: State
    text: str
    advice: str = ""


class _Extension(msgspec.Struct):
    alias: str


class _Extensions(msgspec.Struct):
    extensions: list[_Extension]


class _Version(msgspec.Struct):
    id: str
    version: str = ""  # the newest microversion; "": of a service without them


class _Versions(msgspec.Struct):
    versions: list[_Version]


async def network(client: httpx.AsyncClient) -> AsyncIterator[Checked]:
    """Yield the checks of a Neutron. Raises: Unavailable: it does not answer."""
    answer = await _get(client, "/v2.0/extensions")
    yield _answers("network", answer)
    if not answer.is_success:
        return
    found = {each.alias for each in _decoded(answer, _Extensions).extensions}
    if missing := [name for name in NEEDED if name not in found]:
        yield Checked(
            subject="network",
            state="failed",
            text=f"Neutron lacks the extension {_listed(missing, NEEDED)}",
            advice="enable it in Neutron: its core plugin has to be ML2, with the service plugins of these extensions",
        )
    else:
        yield Checked(subject="network", state="ok", text=f"extensions: {', '.join(NEEDED)}")
    if missing := [name for name in WELCOME if name not in found]:
        yield Checked(
            subject="network",
            state="warning",
            text=f"Neutron lacks the extension {_listed(missing, WELCOME)}",
            advice="enable it in Neutron if that is needed",
        )
    yield _as_administrator("network", "Neutron: it sees no ports", await _get(client, OF_ADMINISTRATORS))


async def image(client: httpx.AsyncClient) -> AsyncIterator[Checked]:
    """Yield the checks of a Glance. Raises: Unavailable: it does not answer."""
    answer = await _get(client, "/versions")
    if answer.is_server_error:
        yield _answers("image", answer)
        return
    found = _decoded(answer, _Versions).versions if answer.status_code in (200, 300) else []
    newest = max((each.id for each in found if each.id.startswith("v2")), key=_number, default=None)
    if newest is None:
        yield _failed("image", f"what answers at {answer.url} has no version 2 of Glance's API", "check the endpoint")
        return
    yield Checked(subject="image", state="ok", text=f"Glance answers: API {newest}")
    yield _answers("image", await _get(client, "/v2/images", visibility="all", limit="1"))


async def volume(client: httpx.AsyncClient) -> AsyncIterator[Checked]:
    """Yield the checks of a Cinder. Raises: Unavailable: it does not answer."""
    answer = await _get(client, "/")
    if answer.is_server_error:
        yield _answers("volume", answer)
        return
    found = _decoded(answer, _Versions).versions if answer.status_code in (200, 300) else []
    newest = next((each.version for each in found if each.id.startswith("v3")), "")
    needed = ".".join(map(str, VOLUME_MICROVERSION))
    if not newest:
        yield _failed("volume", f"what answers at {answer.url} has no version 3 of Cinder's API", "check the endpoint")
        return
    if _number(newest) < VOLUME_MICROVERSION:
        yield _failed("volume", f"Cinder has microversions up to {newest}, needed is {needed}", "upgrade Cinder")
    else:
        yield Checked(subject="volume", state="ok", text=f"Cinder answers: microversion {newest}, {needed} is needed")
    yield _answers("volume", await _get(client, "/v3/attachments", HEADERS, all_tenants="1", limit="1"))
    yield _as_administrator("volume", "Cinder: it sees no volumes", await _get(client, "/v3/os-services"))


def rights(roles: Sequence[str]) -> Checked:
    """Return the check of the login's roles."""
    if missing := sorted({"admin", "service"} - {role.lower() for role in roles}):
        return _failed(
            "identity",
            f"the login has no role {' and no role '.join(missing)} in its project: 'admin' is for objects of all"
            " projects, 'service' for bindings of ports and for service tokens",
            "; ".join(f"openstack role add --user USER --project PROJECT {role}" for role in missing),
        )
    return Checked(subject="identity", state="ok", text="the login has the roles admin and service")


def _answers(service: str, answer: httpx.Response, how: str = "") -> Checked:
    """Return the check of one answer."""
    words = f" {how}" if how else ""
    if answer.is_success:
        return Checked(subject=service, state="ok", text=f"{answer.url.copy_with(query=None)} answers{words}")
    return _failed(
        service,
        f"{answer.url.copy_with(query=None)} answers {answer.status_code}: {answer.text[:200].strip()}",
        "look at the log of the service, and of what is before it: it has a problem of its own"
        if answer.is_server_error
        else "check the endpoint in the catalog, and the roles of the login",
    )


def _as_administrator(service: str, without: str, answer: httpx.Response) -> Checked:
    """Return the check of an answer for administrators. without: what the login does not see, of other projects."""
    if answer.status_code == httpx.codes.FORBIDDEN:
        return _failed(
            service,
            f"the login is not an administrator in {without} of other projects",
            "give its user the role 'admin' in its project",
        )
    return _answers(service, answer, "as an administrator")


def _failed(subject: str, text: str, advice: str) -> Checked:
    return Checked(subject=subject, state="failed", text=text, advice=advice)


def _listed(names: Sequence[str], reasons: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({reasons[name]})" for name in names)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.removeprefix("v").split(".") if part.isdecimal())


async def _get(
    client: httpx.AsyncClient, path: str, headers: Mapping[str, str] | None = None, **query: str
) -> httpx.Response:
    with unanswered("it does not answer"):
        return await client.get(path, headers=headers, params=query or None)


def _decoded(answer: httpx.Response, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(answer.content, type=kind)
    except msgspec.DecodeError as error:
        raise Unavailable(f"{answer.url} answers what cannot be read: {error}") from error
