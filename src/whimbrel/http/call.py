"""One admitted request, as the handlers of the embedded services see it."""

from dataclasses import dataclass
from typing import ClassVar, TypeVar

from whimbrel.http.problem import Problem
from whimbrel.http.request import Request
from whimbrel.ports.services.identity import Identity, Principal

T = TypeVar("T")

SERVICE_ROLE = "service"


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """A request and its principal."""

    body_limit_bytes: ClassVar = 1 << 20

    request: Request
    principal: Principal

    def path(self, name: str) -> str:
        """Return a parameter of the path."""
        return self.request.params[name]

    async def body(self, kind: type[T]) -> T:
        """Decode the body as this type. Raises: Problem: 400, 413."""
        return await self.request.decoded(kind, self.body_limit_bytes)


async def project_principal(request: Request, identity: Identity) -> Principal:
    """Return the principal. Raises: Problem: 401 no valid token, 403 a token without a project, 400."""
    if request.has_nul:
        raise Problem(400, "A NUL character is not allowed.")
    principal = await request.principal(identity)
    if principal is None:
        raise Problem(401, "This request needs a valid token.")
    if not principal.project_id:
        raise Problem(403, "This request needs a token for a project.")
    return principal


async def is_from_service(request: Request, identity: Identity, principal: Principal) -> bool:
    """Check whether a service of the cloud sends a request. Raises: Problem: 401: its token is not valid.

    Source: keystonemiddleware: the second token, X-Service-Token, has the role `service`; that of the first one,
    which may be a user's, is not enough.
    """
    token = request.headers.get("x-service-token")
    if not token:
        return False
    service = principal if token == request.headers.get("x-auth-token") else await identity.principal(token)
    if service is None:
        raise Problem(401, "This request needs a valid service token.")
    return SERVICE_ROLE in service.roles
