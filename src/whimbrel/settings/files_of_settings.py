"""The files that a settings file names: certificates, keys, and the URL of the database.

Invariant: a secret is in a file of its own or is a systemd credential, so that the settings file can be readable.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from whimbrel.domain.errors import Invalid
from whimbrel.domain.guest_settings import GuestRules
from whimbrel.settings.cell_sections import IpmiFence, RedfishFence
from whimbrel.settings.named_files import read_word
from whimbrel.settings.sections import CloudConfig, GuestsTable, KeystoneTable, NotificationsTable

CREDENTIALS = "CREDENTIALS_DIRECTORY"
"""The variable in which systemd names the directory of a service's credentials."""

CREDENTIAL_STORE = Path("/etc/credstore")
"""From here systemd loads the credentials of its services. Administrators' commands, outside of a service, read it."""


def with_files(name: str, config: CloudConfig, directory: Path, environment: Mapping[str, str]) -> CloudConfig:
    """Return the settings with absolute names of files, and with the database URL read from its file.

    name, directory: of the settings file. A relative name means a credential, else a file in this directory, else one
    in systemd's store of credentials.
    Raises: Invalid: a file cannot be read.
    """

    def found(file: str | None) -> str | None:
        return None if file is None else str(_located(file, directory, environment))

    tls, services, bus, database = config.tls, config.services, config.bus, config.database
    if (tls.cert_file is None) != (tls.key_file is None):
        raise Invalid(f"{name}: [tls] has one of 'cert_file' and 'key_file'; give it both")
    if database.url_file is not None:
        if database.url is not None:
            raise Invalid(f"{name}: [database] has 'url' and 'url_file'; remove one of them")
        url = _read(name, "[database]: 'url_file'", Path(found(database.url_file) or ""))
        database = replace(database, url=url, url_file=found(database.url_file))
    notifications = _notifications(name, config.notifications, found)
    guests = replace(
        config.guests,
        vendor_data_file=found(config.guests.vendor_data_file),
        vendordata_dynamic_ca_file=found(config.guests.vendordata_dynamic_ca_file),
    )
    return replace(
        config,
        tls=replace(tls, cert_file=found(tls.cert_file), key_file=found(tls.key_file)),
        services=replace(services, ca_file=found(services.ca_file)),
        guests=guests,
        notifications=notifications,
        metadata=replace(config.metadata, secret_file=found(config.metadata.secret_file)),
        rules=replace(config.rules, guests=guest_rules(name, guests)),
        metrics=replace(config.metrics, secret_file=found(config.metrics.secret_file)),
        keystone=_keystone(config.keystone, found),
        bus=replace(bus, ca_file=found(bus.ca_file)),
        fences=tuple(_fence(fence, found) for fence in config.fences),
        database=database,
    )


def _keystone(table: KeystoneTable | None, found: Callable[[str | None], str | None]) -> KeystoneTable | None:
    """The secrets are not read here: they may be changed while a process runs."""
    if table is None:
        return None
    return replace(
        table,
        password_file=found(table.password_file),
        application_credential_secret_file=found(table.application_credential_secret_file),
        ca_file=found(table.ca_file),
        cert_file=found(table.cert_file),
        key_file=found(table.key_file),
    )


def guest_rules(name: str, guests: GuestsTable) -> GuestRules:
    """Return the rules of [guests], with the contents of the file of vendor data. Raises: Invalid."""
    vendor_data: dict[str, Any] = {}
    if guests.vendor_data_file is not None:
        text = _read(name, "[guests]: 'vendor_data_file'", Path(guests.vendor_data_file), "a JSON object")
        try:
            vendor_data = msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise Invalid(
                f"{name}: [guests]: 'vendor_data_file' is {guests.vendor_data_file}, which has no JSON object: {error}"
            ) from None
    same = {key: getattr(guests, key) for key in GuestRules.__struct_fields__ if key != "vendor_data"}
    return GuestRules(vendor_data=vendor_data, **same)


def _notifications(
    name: str, table: NotificationsTable, found: Callable[[str | None], str | None]
) -> NotificationsTable:
    """Return the table with the URL of the broker, which has a password. Raises: Invalid."""
    table = replace(table, ca_file=found(table.ca_file))
    if table.transport_url_file is None:
        return table
    if table.transport_url is not None:
        raise Invalid(f"{name}: [notifications] has 'transport_url' and 'transport_url_file'; remove one of them")
    file = found(table.transport_url_file)
    url = _read(name, "[notifications]: 'transport_url_file'", Path(file or ""))
    return replace(table, transport_url=url, transport_url_file=file)


def _fence(fence: RedfishFence | IpmiFence, found: Callable[[str | None], str | None]) -> RedfishFence | IpmiFence:
    """The password is not read here: most processes with this file have no use for it."""
    located = replace(fence, password_file=found(fence.password_file))
    return replace(located, ca_file=found(located.ca_file)) if isinstance(located, RedfishFence) else located


def _located(file: str, directory: Path, environment: Mapping[str, str]) -> Path:
    credentials = environment.get(CREDENTIALS)
    places = [*([Path(credentials)] if credentials else []), directory, CREDENTIAL_STORE]
    return next((place / file for place in places if os.path.exists(place / file)), directory / file)


def _read(name: str, key: str, file: Path, wanted: str = "the URL") -> str:
    return read_word(file, f"{name}: {key}", wanted)
