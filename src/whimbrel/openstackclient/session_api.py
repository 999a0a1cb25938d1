"""The API at the compute endpoint of the catalog, in the session of the `openstack` command."""

from typing import Any

from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session
from osc_lib.exceptions import CommandError


class SessionApi:
    """Raises, all calls: CommandError: the API refused, in its own words; errors of keystoneauth1: no answer."""

    def __init__(self, session: Session, *, region_name: str | None, interface: str | None) -> None:
        self._api = Adapter(session, service_type="compute", region_name=region_name, interface=interface)

    def get(self, path: str) -> Any:
        return self._ask("GET", path).json()

    def post(self, path: str, body: Any) -> Any:
        answer = self._ask("POST", path, body)
        return answer.json() if answer.content else None

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request. keystoneauth1 does not read the errors of the compute API, so it must not raise them."""
        answer = self._api.request(path, method, json=body, raise_exc=False)
        if answer.ok:
            return answer
        try:
            [(_, said)] = answer.json().items()
            message = said["message"]
        except (ValueError, LookupError, TypeError, AttributeError):
            message = answer.reason
        raise CommandError(f"{message} (HTTP {answer.status_code})")
