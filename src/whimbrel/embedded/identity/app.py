"""Every URL of the identity service, the rule for its callers, and its handler."""

from whimbrel.embedded.identity import accounts, catalog_resources, role_assignments, tokens, versions
from whimbrel.embedded.identity.attempts import Attempts
from whimbrel.embedded.identity.request import (
    SHAPE,
    Context,
    Handler,
    Rule,
    admin,
    admission,
    everybody,
    holder,
    insider,
    oneself,
)
from whimbrel.embedded.identity.service_catalog import Catalog
from whimbrel.http.app import App, routed
from whimbrel.http.routes import Route
from whimbrel.ports.clock import Clock, IdSource
from whimbrel.ports.services.identity import IdentityStore

TOKEN_LIFETIME_S = 12 * 3600.0

USER = "/v3/users/{user_id}"
PROJECT = "/v3/projects/{project_id}"
ROLES_OF_USER = "/v3/projects/{project_id}/users/{user_id}/roles"

ROUTES: tuple[tuple[str, str, Handler, Rule], ...] = (
    ("GET", "/", versions.list_all, everybody),
    ("GET", "/v3", versions.show_v3, everybody),
    ("POST", "/v3/auth/tokens", tokens.create, everybody),
    ("GET", "/v3/auth/tokens", tokens.show, holder),
    ("DELETE", "/v3/auth/tokens", tokens.revoke, holder),
    ("GET", "/v3/auth/catalog", tokens.show_catalog, holder),
    ("GET", "/v3/auth/projects", tokens.list_projects, holder),
    ("GET", "/v3/auth/domains", tokens.list_domains, holder),
    ("GET", "/v3/users", accounts.list_users, admin),
    ("POST", "/v3/users", accounts.create_user, admin),
    ("GET", USER, accounts.show_user, oneself),
    ("PATCH", USER, accounts.update_user, admin),
    ("DELETE", USER, accounts.delete_user, admin),
    ("POST", USER + "/password", accounts.change_own_password, everybody),  # the old password is the proof
    ("GET", USER + "/projects", accounts.list_projects_of_user, oneself),
    ("GET", "/v3/projects", accounts.list_projects, admin),
    ("POST", "/v3/projects", accounts.create_project, admin),
    ("GET", PROJECT, accounts.show_project, insider),
    ("PATCH", PROJECT, accounts.update_project, admin),
    ("DELETE", PROJECT, accounts.delete_project, admin),
    ("GET", ROLES_OF_USER, role_assignments.list_of_user, admin),
    ("GET", ROLES_OF_USER + "/{role_id}", role_assignments.check, admin),
    ("PUT", ROLES_OF_USER + "/{role_id}", role_assignments.assign, admin),
    ("DELETE", ROLES_OF_USER + "/{role_id}", role_assignments.unassign, admin),
    ("GET", "/v3/role_assignments", role_assignments.list_all, admin),
    ("GET", "/v3/roles", accounts.list_roles, admin),
    ("POST", "/v3/roles", accounts.create_role, admin),
    ("GET", "/v3/roles/{role_id}", accounts.show_role, admin),
    ("DELETE", "/v3/roles/{role_id}", accounts.delete_role, admin),
    ("GET", "/v3/domains", accounts.list_domains, admin),
    ("GET", "/v3/domains/{domain_id}", accounts.show_domain, holder),
    ("GET", "/v3/services", catalog_resources.list_services, admin),
    ("GET", "/v3/services/{service_id}", catalog_resources.show_service, admin),
    ("GET", "/v3/endpoints", catalog_resources.list_endpoints, admin),
    ("GET", "/v3/endpoints/{endpoint_id}", catalog_resources.show_endpoint, admin),
    ("GET", "/v3/regions", catalog_resources.list_regions, everybody),
    ("GET", "/v3/regions/{region_id}", catalog_resources.show_region, everybody),
)


def identity_app(
    store: IdentityStore,
    clock: Clock,
    ids: IdSource,
    catalog: Catalog,
    token_lifetime_s: float = TOKEN_LIFETIME_S,
    attempts: Attempts | None = None,
) -> App:
    """Create the application, to be mounted at /identity. attempts: None: with the default costs."""
    context = Context(
        store=store,
        clock=clock,
        ids=ids,
        catalog=catalog,
        token_lifetime_s=token_lifetime_s,
        attempts=attempts or Attempts(clock),
    )
    return routed((Route(*line) for line in ROUTES), admission(context), SHAPE)
