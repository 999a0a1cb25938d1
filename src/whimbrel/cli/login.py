"""The cloud of a command, and its login there: an entry of a clouds.yaml, that of `whimbrel up` or any other."""

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import platformdirs
import yaml

from whimbrel.domain.errors import Invalid, NotFound
from whimbrel.settings.datadir import ADMIN_CLOUD, DEMO_CLOUD, DataDir

DEFAULT_DOMAIN = {"id": "default"}
SECRETS = "secure.yaml"
"""Beside a clouds.yaml: has the secrets of its clouds."""


class Login:
    """One entry of a clouds.yaml."""

    def __init__(self, file: Path, cloud: str) -> None:
        """Raises: NotFound: no such file or entry; Invalid: it is no clouds.yaml."""
        self.file, self.cloud = file, cloud
        clouds = _entries(file)
        entry = clouds.get(cloud)
        if entry is None:
            known = ", ".join(map(str, clouds)) or "none"
            raise NotFound(f"{file} has no cloud '{cloud}': name one with --os-cloud or OS_CLOUD; it has {known}")
        secrets = file.with_name(SECRETS)
        secret = _entries(secrets).get(cloud, {}) if secrets.exists() else {}
        auth: dict[str, str] = {**entry.get("auth", {}), **secret.get("auth", {})}
        try:
            self.auth_url = _with_version(auth["auth_url"])
            self.body = {"auth": _proof(entry.get("auth_type", ""), auth)}
        except (KeyError, AttributeError) as error:
            raise Invalid(f"{file}: cloud '{cloud}' has no {error} in its auth") from None
        self.region: str | None = entry.get("region_name")
        self.interface: str = str(entry.get("interface", "public")).removesuffix("URL")
        self._ca_file, self._verifies = entry.get("cacert"), entry.get("verify", True)
        self._entry = entry

    def override(self, service: str) -> str | None:
        """Return the URL of a service if the entry has it, instead of that of the catalog."""
        url: str | None = self._entry.get(f"{service.replace('-', '_')}_endpoint_override")
        return url

    def trusted(self) -> ssl.SSLContext | bool:
        """Return how certificates are verified: by the authorities of the system, or by `cacert`; False: not at all.

        Raises: Invalid: the file of `cacert` cannot be used.
        """
        if not self._verifies:
            return False
        if self._ca_file is None:
            return True
        try:
            return ssl.create_default_context(cafile=Path(self._ca_file).expanduser())
        except OSError as error:
            raise Invalid(f"{self.file}: the 'cacert' {self._ca_file} cannot be used: {error}") from None


def find_login(
    data_dir: Path, os_cloud: str | None, data_dir_given: bool, environment: Mapping[str, str] = os.environ
) -> Login:
    """Return the login: of the data directory if one was given, else as the environment says.

    os_cloud: None: OS_CLOUD names the entry; the administrator of the data directory's cloud if it names its user.
    Raises: NotFound; Invalid.
    """
    own = DataDir(data_dir).clouds
    said = environment.get("OS_CLOUD")
    named = os_cloud or (ADMIN_CLOUD if data_dir_given or said in (None, "", DEMO_CLOUD) else said) or ADMIN_CLOUD
    if data_dir_given:
        return Login(own, named)
    if file := environment.get("OS_CLIENT_CONFIG_FILE"):
        if not Path(file).exists():
            raise NotFound(f"there is no {file}, which OS_CLIENT_CONFIG_FILE names: correct it, or use --data-dir")
        return Login(Path(file), named)
    usual = (Path("clouds.yaml"), Path(platformdirs.user_config_dir("openstack")) / "clouds.yaml")
    places = (own, *usual, Path("/etc/openstack/clouds.yaml"))
    return Login(next((file for file in places if file.exists() and named in _entries(file)), own), named)


def _entries(file: Path) -> dict[str, Any]:
    try:
        read = yaml.safe_load(file.read_text())
    except FileNotFoundError:
        raise NotFound(
            f"there is no {file}: start a cloud with `whimbrel up`, or name its directory with --data-dir"
        ) from None
    except OSError as error:
        raise NotFound(f"{file} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise Invalid(f"{file} is not a YAML file") from None
    if not isinstance(read, dict) or not isinstance(read.get("clouds"), dict):
        raise Invalid(f"{file} has no clouds in it")
    return dict(read["clouds"])


def _with_version(auth_url: str) -> str:
    """Return the URL of Keystone's API 3: clouds.yaml has it with or without the version."""
    url = auth_url.rstrip("/")
    return url if url.endswith("/v3") else f"{url}/v3"


def _proof(auth_type: str, auth: Mapping[str, str]) -> dict[str, Any]:
    """Return the body of a login without its envelope. Raises: KeyError: what is missing."""
    if auth_type == "v3applicationcredential" or "application_credential_id" in auth:
        credential: dict[str, Any] = {"secret": auth["application_credential_secret"]}
        if "application_credential_id" in auth:
            credential["id"] = auth["application_credential_id"]
        else:
            credential["name"] = auth["application_credential_name"]
            credential["user"] = _user(auth)
        return {"identity": {"methods": ["application_credential"], "application_credential": credential}}
    if auth_type in ("token", "v3token"):
        proof: dict[str, Any] = {"methods": ["token"], "token": {"id": auth["token"]}}
    else:
        proof = {"methods": ["password"], "password": {"user": {**_user(auth), "password": auth["password"]}}}
    if auth.get("system_scope"):
        return {"identity": proof, "scope": {"system": {auth["system_scope"]: True}}}
    if "project_id" in auth:
        return {"identity": proof, "scope": {"project": {"id": auth["project_id"]}}}
    project = {"name": auth["project_name"], "domain": _domain(auth, "project")}
    return {"identity": proof, "scope": {"project": project}}


def _user(auth: Mapping[str, str]) -> dict[str, Any]:
    if "user_id" in auth:
        return {"id": auth["user_id"]}
    return {"name": auth["username"], "domain": _domain(auth, "user")}


def _domain(auth: Mapping[str, str], of: str) -> dict[str, str]:
    for key, name in (("id", f"{of}_domain_id"), ("name", f"{of}_domain_name"), ("id", "domain_id")):
        if name in auth:
            return {key: auth[name]}
    return DEFAULT_DOMAIN
