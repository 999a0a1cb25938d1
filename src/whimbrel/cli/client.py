"""A thin client of a cloud's API, for the commands: log in by clouds.yaml, send requests, translate errors."""

import os
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import httpx
import msgspec
import yaml

from whimbrel.domain.errors import Invalid, NotFound, Refused, Unavailable
from whimbrel.settings.datadir import DataDir

TIMEOUT_S = 30.0
NEWEST = "2.104"


class Login:
    """One entry of a clouds.yaml."""

    def __init__(self, file: Path, cloud: str) -> None:
        """Raises: NotFound: no such file or entry; Invalid: it is no clouds.yaml."""
        self.file, self.cloud = file, cloud
        entry = _entries(file).get(cloud)
        if entry is None:
            raise NotFound(f"{file} has no cloud '{cloud}': name one that it has with --os-cloud")
        auth: dict[str, str] = entry.get("auth", {})
        try:
            self.auth_url = auth["auth_url"].rstrip("/")
            self.body = _password_body(auth)
        except (KeyError, AttributeError) as error:
            raise Invalid(f"{file}: cloud '{cloud}' has no {error} in its auth") from None
        self._ca_file, self._verifies = entry.get("cacert"), entry.get("verify", True)

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


def find_login(data_dir: Path, os_cloud: str, data_dir_given: bool) -> Login:
    """Return the login of the data directory, or that of OS_CLIENT_CONFIG_FILE if no directory was given."""
    named = os.environ.get("OS_CLIENT_CONFIG_FILE")
    file = Path(named) if named and not data_dir_given else DataDir(data_dir).clouds
    return Login(file, os_cloud)


class Api:
    """A session with a cloud: `api.get("compute", "/servers")` returns the decoded answer.

    Raises, all calls: NotFound, Refused: the API refused, in its own words; Unavailable: it does not answer.
    """

    def __init__(self, login: Login) -> None:
        self._login = login
        headers = {"openstack-api-version": f"compute {NEWEST}"}
        self._http = httpx.Client(timeout=TIMEOUT_S, headers=headers, verify=login.trusted())
        self._places: dict[str, str] = {}

    def __enter__(self) -> Self:
        self.log_in()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def log_in(self) -> None:
        answer = self._send("POST", f"{self._login.auth_url}/auth/tokens", self._login.body)
        try:
            self._http.headers["x-auth-token"] = answer.headers["x-subject-token"]
            for service in answer.json()["token"]["catalog"]:
                for endpoint in service["endpoints"]:
                    if endpoint["interface"] == "public":
                        self._places[service["type"]] = endpoint["url"].rstrip("/")
        except (ValueError, LookupError, TypeError):
            raise Refused(f"what answers at {self._login.auth_url} is no Keystone: is the URL right?") from None

    def get(self, service: str, path: str, headers: Mapping[str, str] = {}) -> Any:
        return self._send("GET", self._url(service, path), headers=headers).json()

    def lines(self, service: str, path: str) -> Iterator[Any]:
        """Yield the lines of a streamed answer, decoded, as they arrive."""
        try:
            with self._http.stream("GET", self._url(service, path), timeout=None) as answer:
                if not answer.is_success:
                    answer.read()
                    raise self._no(answer)
                yield from map(msgspec.json.decode, answer.iter_lines())
        except httpx.HTTPError as error:
            raise self._unreachable(error) from None

    def post(self, service: str, path: str, body: Any) -> Any:
        answer = self._send("POST", self._url(service, path), body)
        return answer.json() if answer.content else None

    def put(self, service: str, path: str, body: Any = None, content: bytes | None = None) -> None:
        headers = {"content-type": "application/octet-stream"} if content is not None else {}
        self._send("PUT", self._url(service, path), body, content, headers)

    def delete(self, service: str, path: str) -> None:
        self._send("DELETE", self._url(service, path))

    def _url(self, service: str, path: str) -> str:
        try:
            return self._places[service] + path
        except KeyError:
            raise Refused(f"the cloud at {self._login.auth_url} has no {service} service") from None

    def _send(
        self,
        method: str,
        url: str,
        body: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] = {},
    ) -> httpx.Response:
        try:
            answer = self._http.request(method, url, json=body, content=content, headers=dict(headers))
        except httpx.InvalidURL as error:
            raise Invalid(f"{self._login.file}: {url} is no URL ({error})") from None
        except httpx.HTTPError as error:
            raise self._unreachable(error) from None
        if answer.is_success:
            return answer
        raise self._no(answer)

    def _unreachable(self, error: httpx.HTTPError) -> Unavailable:
        return Unavailable(
            f"the cloud at {self._login.auth_url} does not answer ({error}): is it up? Start it with: whimbrel up"
        )

    def _no(self, answer: httpx.Response) -> NotFound | Refused:
        return (NotFound if answer.status_code == 404 else Refused)(_said(answer, self._login))


def _said(answer: httpx.Response, login: Login) -> str:
    """Return the message of an error of any OpenStack service."""
    try:
        [(_, said), *_] = answer.json().items()
        message = said[0]["detail"] if isinstance(said, list) else said["message"]
    except (ValueError, LookupError, TypeError, AttributeError):
        message = answer.text.strip()[:200] or answer.reason_phrase
    if answer.status_code == 401:
        message = f"{message} (logged in as cloud '{login.cloud}' of {login.file})"
    return f"{message} (HTTP {answer.status_code})"


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


def _password_body(auth: Mapping[str, str]) -> dict[str, Any]:
    user_domain = {"id": auth["user_domain_id"]} if "user_domain_id" in auth else {"name": auth["user_domain_name"]}
    domain = {"id": auth["project_domain_id"]} if "project_domain_id" in auth else {"name": auth["project_domain_name"]}
    user = {"name": auth["username"], "password": auth["password"], "domain": user_domain}
    return {
        "auth": {
            "identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": {"name": auth["project_name"], "domain": domain}},
        }
    }
