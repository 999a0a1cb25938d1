"""What Keystone has and this service does not: refused by name."""

from collections.abc import Iterator

from whimbrel.embedded.identity.request import Call, Handler, Rule, holder, oneself
from whimbrel.http.problem import Problem, refusing
from whimbrel.http.reply import Reply

FILTERS = "Endpoints of single projects"

NAMES = {
    "OS-EP-FILTER/endpoint_groups": FILTERS,
    "OS-EP-FILTER/endpoint_groups/{id}/projects": FILTERS,
    "OS-EP-FILTER/endpoints/{id}/projects": FILTERS,
    "OS-EP-FILTER/projects/{id}/endpoint_groups": FILTERS,
    "OS-EP-FILTER/projects/{id}/endpoints": FILTERS,
    "OS-FEDERATION/identity_providers": "Identity providers",
    "OS-FEDERATION/mappings": "Mappings of federated users",
    "OS-FEDERATION/service_providers": "Service providers",
    "OS-OAUTH1/consumers": "Consumers of OAuth",
    "domains/{domain_id}/config": "Settings of single domains",
    "policies": "Policies in the identity service",
    "role_inferences": "Roles that imply others",
    "roles/{role_id}/implies": "Roles that imply others",
}
"""Path below /v3 -> name."""


def routes() -> Iterator[tuple[str, str, Handler, Rule]]:
    for path, name in NAMES.items():
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            for item in ("", "/{item}"):
                yield method, f"/v3/{path}{item}", _refusal(name), holder
    yield "GET", "/v3/users/{user_id}/access_rules", list_access_rules, oneself
    yield "GET", "/v3/users/{user_id}/access_rules/{item}", show_access_rule, oneself
    yield "DELETE", "/v3/users/{user_id}/access_rules/{item}", show_access_rule, oneself


def _refusal(name: str) -> Handler:
    return refusing(404, f"{name} are not supported by the embedded identity service.")


async def list_access_rules(call: Call) -> Reply:
    """List the access rules of application credentials: there are none, see application_credentials.py."""
    links = {"self": f"{call.root_url}/v3/users/{call.path('user_id')}/access_rules", "previous": None, "next": None}
    return Reply({"access_rules": [], "links": links})


async def show_access_rule(call: Call) -> Reply:
    raise Problem(404, f"Could not find Access Rule: {call.path('item')[:64]}.")
