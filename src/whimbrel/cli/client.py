"""A thin client of a cloud's API, for the commands: log in by clouds.yaml, send requests, translate errors."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Self

import httpx
import msgspec

from whimbrel.cli.login import Login, find_login
from whimbrel.domain.errors import Invalid, NotFound, Refused, Unavailable
from whimbrel.settings.datadir import DataDir

__all__ = ["Api", "Login", "find_login"]

TIMEOUT_S = 30.0
NEWEST = "2.104"
TOKEN = "x-auth-token"
VALID_S = 900.0
"""How much longer a token must be valid to be used again: as long as a look of the doctor may take."""


class Api:
    """A session with a cloud: `api.get("compute", "/servers")` returns the decoded answer.

    Raises, all calls: NotFound, Refused: the API refused, in its own words; Unavailable: it does not answer.
    """

    def __init__(self, login: Login, transport: httpx.BaseTransport | None = None) -> None:
        """transport: None: the network."""
        self._login = login
        headers = {"openstack-api-version": f"compute {NEWEST}"}
        self._http = httpx.Client(timeout=TIMEOUT_S, headers=headers, verify=login.trusted(), transport=transport)
        self._places: dict[str, str] = {}
        self._until = 0.0  # when the token expires
        self.roles: frozenset[str] = frozenset()  # of the login, in lower case

    def __enter__(self) -> Self:
        self.log_in()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def log_in(self) -> None:
        self._http.headers.pop(TOKEN, None)
        answer = self._send("POST", self._tokens, self._login.body)
        try:
            self._http.headers[TOKEN] = answer.headers["x-subject-token"]
            self._read(answer.json()["token"])
        except (ValueError, LookupError, TypeError):
            raise Refused(f"what answers at {self._login.auth_url} is no Keystone: is the URL right?") from None

    def renew(self, now: float) -> None:
        """Log in, unless there is a token that stays valid; either way read its roles and the catalog of now.

        To check a token costs Keystone little, while at each login it hashes a password.
        """
        if self._until - now < VALID_S or not self._is_valid():
            self.log_in()

    @property
    def _tokens(self) -> str:
        return f"{self._login.auth_url}/auth/tokens"

    def _is_valid(self) -> bool:
        try:
            answer = self._send("GET", self._tokens, headers={"x-subject-token": self._http.headers[TOKEN]})
            self._read(answer.json()["token"])
        except (Refused, NotFound, ValueError, LookupError, TypeError):
            return False
        return True

    def _read(self, token: Any) -> None:
        """Take roles and catalog from a token as Keystone shows it. Raises: LookupError, TypeError, ValueError."""
        places = {
            service["type"]: endpoint["url"].rstrip("/")
            for service in token["catalog"]
            for endpoint in service["endpoints"]
            if endpoint["interface"] == self._login.interface
            and self._login.region in (None, endpoint.get("region_id"), endpoint.get("region"))
        }
        self.roles = frozenset(role["name"].lower() for role in token.get("roles", ()))
        self._places = places
        expires = token.get("expires_at")
        self._until = datetime.fromisoformat(expires).timestamp() if expires else 0.0

    def has(self, service: str) -> bool:
        """Check whether the cloud has a service of this type."""
        return bool(self._login.override(service) or self._places.get(service))

    def get_unversioned(self, service: str, path: str, headers: Mapping[str, str] = {}) -> Any:
        """As `get`; the path begins with the version, which the URL in the catalog may have, too."""
        from whimbrel.adapters.openstack.own_token import unversioned

        return self._send("GET", unversioned(self._url(service, "")) + path, headers=headers).json()

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
            raise self._unreachable(error, self._url(service, path)) from None

    def post(self, service: str, path: str, body: Any) -> Any:
        answer = self._send("POST", self._url(service, path), body)
        return answer.json() if answer.content else None

    def put(self, service: str, path: str, body: Any = None, content: bytes | None = None) -> None:
        headers = {"content-type": "application/octet-stream"} if content is not None else {}
        self._send("PUT", self._url(service, path), body, content, headers)

    def delete(self, service: str, path: str) -> None:
        self._send("DELETE", self._url(service, path))

    def _url(self, service: str, path: str) -> str:
        url = self._login.override(service) or self._places.get(service)
        if url is None:
            where = f" in region {self._login.region}" if self._login.region else ""
            raise Refused(f"the cloud at {self._login.auth_url} has no {service} service{where}")
        return url.rstrip("/") + path

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
            raise self._unreachable(error, url) from None
        if answer.is_success:
            return answer
        raise self._no(answer)

    def _unreachable(self, error: httpx.HTTPError, url: str) -> Unavailable:
        file, place = self._login.file, url.partition("?")[0]
        own = DataDir(file.parent)
        if own.clouds == file and own.has_run():
            advice = f"Start it with: whimbrel up --data-dir {own.path}"
        else:
            advice = f"It is cloud '{self._login.cloud}' of {file}"
        return Unavailable(f"the cloud does not answer at {place} ({error}): is it up? {advice}")

    def _no(self, answer: httpx.Response) -> NotFound | Refused:
        return (NotFound if answer.status_code == 404 else Refused)(_message_of(answer, self._login))


def _message_of(answer: httpx.Response, login: Login) -> str:
    """Return the message of an error of any OpenStack service."""
    try:
        [(_, error), *_] = answer.json().items()
        message = error[0]["detail"] if isinstance(error, list) else error["message"]
    except (ValueError, LookupError, TypeError, AttributeError):
        message = answer.text.strip()[:200] or answer.reason_phrase
    if answer.status_code == 401:
        message = f"{message} (log-in by cloud '{login.cloud}' of {login.file}: check its user and password)"
    return f"{message} (HTTP {answer.status_code})"
