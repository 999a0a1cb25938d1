"""Checks every connection of a cloud before anything is started: databases, bus, and the services that others run.

Invariant: nothing is changed anywhere, and one that fails hides no other.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack

import httpx

from whimbrel.adapters.clock import SystemClock
from whimbrel.adapters.openstack import discovery
from whimbrel.adapters.openstack.catalog_entries import Entry
from whimbrel.adapters.openstack.discovery import Checked
from whimbrel.adapters.sql.engine.schema import look, revisions
from whimbrel.adapters.sql.engine.urls import without_password
from whimbrel.adapters.sql.tables import kind_of
from whimbrel.bootstrap import bus_administration
from whimbrel.bootstrap.external_services import ExternalServices
from whimbrel.bootstrap.notifications import sink_of
from whimbrel.bootstrap.own_catalog_entries import own_entries
from whimbrel.bootstrap.process_base import stores_of
from whimbrel.domain.errors import WorldError
from whimbrel.settings import CloudConfig

SERVICES: Mapping[str, Callable[[httpx.AsyncClient], AsyncIterator[Checked]]] = {
    "image": discovery.image,
    "network": discovery.network,
    "volume": discovery.volume,
}


async def check_connections(config: CloudConfig, database_url: str) -> list[Checked]:
    """database_url: of the cloud."""
    found = [*await _databases(config, database_url), await _bus(config, database_url), await _broker(config)]
    if config.keystone is None:
        return [*found, _fine("services", "identity, image, network and volume are embedded")]
    found += _cells(config)
    async with AsyncExitStack() as closing:
        external = ExternalServices(config, SystemClock(), closing)
        found += await _identity(external)
        if found[-1].state == "failed" and found[-1].text.startswith("no login"):
            return found
        for name in sorted(config.external - {"identity"}):
            found += await _service(external, name)
        found += [await _registered(external, config, entry) for entry in own_entries(config)]
    embedded = sorted({"image", "network", "volume"} - config.external)
    return [*found, *([_fine("services", f"embedded: {', '.join(embedded)}")] if embedded else [])]


def _cells(config: CloudConfig) -> list[Checked]:
    if config.cells or config.bus.urls:
        return []
    text, advice = (
        "the settings have no 'cell'",
        "add [[cell]] with its [[cell.host]], or the [bus] at which hosts join",
    )
    return [Checked(subject="cells", state="failed", text=text, advice=advice)]


async def _databases(config: CloudConfig, url: str) -> list[Checked]:
    stores = [(url, store) for store in stores_of(config.external)]
    stores += [(cell.database or url, f"cell_{cell.name}") for cell in config.cells]
    return [await asyncio.to_thread(_database, each, store) for each, store in stores]


def _database(url: str, store: str) -> Checked:
    where, newest = without_password(url), revisions(kind_of(store))[-1]
    try:
        version = look(url, store).version
    except WorldError as trouble:
        advice = f"check the URL, the server and the password: {where}"
        return Checked(subject="database", state="failed", text=f"{store}: {trouble.reason}", advice=advice)
    if version is None:
        return _fine("database", f"{store}: answers, and is made by the first start or `whimbrel db upgrade`")
    if version < newest:
        text = f"{store}: schema {version}, needed is {newest}"
        return Checked(subject="database", state="warning", text=text, advice="run `whimbrel db upgrade`")
    return _fine("database", f"{store}: schema {version}")


async def _bus(config: CloudConfig, url: str) -> Checked:
    if not config.bus.urls:
        return _fine("bus", "none: all hosts are in the process `up`")
    try:
        view = await bus_administration.show(url, config.bus)
    except WorldError as trouble:
        advice = "start nats-server with the configuration of `whimbrel bus init`, after `whimbrel db upgrade`"
        return Checked(subject="bus", state="failed", text=trouble.reason, advice=advice)
    return _fine("bus", f"{len(view.servers)} of NATS answer")


async def _broker(config: CloudConfig) -> Checked:
    settings, subject = config.notifications, "notifications"
    if not settings.enabled:
        return _fine(subject, "off")
    if settings.transport_url is None:
        text = "this file names no message broker: another conductor has to send them"
        advice = "set 'transport_url_file' in [notifications] of a conductor"
        return Checked(subject=subject, state="warning", text=text, advice=advice)
    try:
        sink = sink_of(settings, settings.transport_url)
        try:
            await sink.check()
        finally:
            await sink.close()
    except WorldError as trouble:
        advice = "check the URL, the server, the login and 'ca_file' in [notifications]"
        return Checked(subject=subject, state="failed", text=trouble.reason, advice=advice)
    return _fine(subject, "the message broker answers")


async def _identity(external: ExternalServices) -> list[Checked]:
    url = external.identity_url
    try:
        roles = await external.token.roles()
    except WorldError as trouble:
        cause = f" ({trouble.__cause__})" if trouble.__cause__ else ""
        return [
            Checked(
                subject="identity",
                state="failed",
                text=f"no login at {url}: {trouble.reason}{cause}",
                advice="check 'auth_url', the login and its secret, 'cert_file', and 'ca_file' in [keystone]; 401 is a"
                " wrong name, project, domain or secret, 404 a wrong 'auth_url', and 5xx a problem of Keystone",
            )
        ]
    return [_fine("identity", f"logged in at {url}"), discovery.rights(roles)]


async def _service(external: ExternalServices, name: str) -> list[Checked]:
    found: list[Checked] = []
    try:
        await external.endpoint(name)
    except WorldError as trouble:
        advice = f"check 'region' and 'interface' in [keystone] and the catalog, or set '{name}' in [services]"
        return [Checked(subject=name, state="failed", text=trouble.reason, advice=advice)]
    try:
        found += [each async for each in SERVICES[name](external.http(name))]
    except WorldError as trouble:
        advice = f"check that the service runs, its endpoint in the catalog, or set '{name}' in [services]"
        found.append(Checked(subject=name, state="failed", text=trouble.reason, advice=advice))
    return found


async def _registered(external: ExternalServices, config: CloudConfig, entry: Entry) -> Checked:
    """Check that clients and services find this cloud in the catalog."""
    name, advice = entry.type, "run `whimbrel bootstrap --register`"
    try:
        found = await external.registered(name)
    except WorldError:
        text = f"the catalog has no endpoint of {name}: neither clients nor Neutron's events find this cloud"
        return Checked(subject="catalog", state="warning", text=text, advice=advice)
    if not (config.services.url or getattr(config.services, name)):
        text = f"{name} is at {found}; 'url' in [services] is not set, so it cannot be compared"
        return Checked(subject="catalog", state="ok", text=text)
    if found != entry.url:
        text = f"{name} is at {found} in the catalog, and at {entry.url} by [services]"
        return Checked(subject="catalog", state="warning", text=text, advice=f"{advice[:-1]} --replace`")
    return _fine("catalog", f"{name} is at {found}")


def _fine(subject: str, text: str) -> Checked:
    return Checked(subject=subject, state="ok", text=text)
