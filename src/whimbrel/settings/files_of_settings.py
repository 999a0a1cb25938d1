"""The files that a settings file names: certificates, keys, and the URL of the database.

Invariant: a secret is in a file of its own or is a systemd credential, so that the settings file can be readable.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from whimbrel.domain.errors import Invalid
from whimbrel.settings.sections import CloudConfig

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
    return replace(
        config,
        tls=replace(tls, cert_file=found(tls.cert_file), key_file=found(tls.key_file)),
        services=replace(services, ca_file=found(services.ca_file)),
        metrics=replace(config.metrics, secret_file=found(config.metrics.secret_file)),
        bus=replace(bus, ca_file=found(bus.ca_file)),
        database=database,
    )


def _located(file: str, directory: Path, environment: Mapping[str, str]) -> Path:
    credentials = environment.get(CREDENTIALS)
    places = [*([Path(credentials)] if credentials else []), directory, CREDENTIAL_STORE]
    return next((place / file for place in places if os.path.exists(place / file)), directory / file)


def _read(name: str, key: str, file: Path) -> str:
    try:
        text = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{name}: {key} is {file}, which cannot be read ({error}); name a readable file") from None
    if not text:
        raise Invalid(f"{name}: {key} is {file}, which is empty; write the URL into it")
    return text
