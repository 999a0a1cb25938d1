"""Every URL of the identity service, the rule for its callers, and its handler."""

from whimbrel.embedded.identity import (
    accounts,
    application_credentials,
    catalog_resources,
    credentials,
    domains,
    groups,
    limits,
    not_supported,
    project_tags,
    role_assignments,
    tokens,
    versions,
)
from whimbrel.embedded.identity.attempts import Attempts
from whimbrel.embedded.identity.record_replies import removing, showing
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
from whimbrel.ports.services.identity import Domain, Group, IdentityStore, Project, Role, User

USER = "/v3/users/{user_id}"
PROJECT = "/v3/projects/{project_id}"
TAGS = PROJECT + "/tags"
ROLES_OF_USER = "/v3/projects/{project_id}/users/{user_id}/roles"
ROLES_OF_GROUP = "/v3/projects/{project_id}/groups/{group_id}/roles"
SYSTEM_ROLES_OF_USER = "/v3/system/users/{user_id}/roles"
SYSTEM_ROLES_OF_GROUP = "/v3/system/groups/{group_id}/roles"
DOMAIN = "/v3/domains/{domain_id}"
GROUP = "/v3/groups/{group_id}"
MEMBER = GROUP + "/users/{user_id}"
APPLICATION_CREDENTIALS = USER + "/application_credentials"
CREDENTIAL = "/v3/credentials/{credential_id}"
EC2 = USER + "/credentials/OS-EC2"
SERVICE = "/v3/services/{service_id}"
ENDPOINT = "/v3/endpoints/{endpoint_id}"
REGION = "/v3/regions/{region_id}"
REGISTERED_LIMIT = "/v3/registered_limits/{registered_limit_id}"
LIMIT = "/v3/limits/{limit_id}"

ROUTES: tuple[tuple[str, str, Handler, Rule], ...] = (
    ("GET", "/", versions.list_all, everybody),
    ("GET", "/v3", versions.show_v3, everybody),
    ("POST", "/v3/auth/tokens", tokens.create, everybody),
    ("GET", "/v3/auth/tokens", tokens.show, holder),
    ("DELETE", "/v3/auth/tokens", tokens.revoke, holder),
    ("GET", "/v3/auth/catalog", tokens.show_catalog, holder),
    ("GET", "/v3/auth/projects", tokens.list_projects, holder),
    ("GET", "/v3/auth/domains", tokens.list_domains, holder),
    ("GET", "/v3/auth/system", tokens.list_systems, holder),
    ("GET", "/v3/users", accounts.list_users, admin),
    ("POST", "/v3/users", accounts.create_user, admin),
    ("GET", USER, showing(User), oneself),
    ("PATCH", USER, accounts.update_user, admin),
    ("DELETE", USER, removing(User), admin),
    ("POST", USER + "/password", accounts.change_own_password, everybody),  # the old password is the proof
    ("GET", USER + "/projects", accounts.list_projects_of_user, oneself),
    ("GET", "/v3/projects", accounts.list_projects, admin),
    ("POST", "/v3/projects", accounts.create_project, admin),
    ("GET", PROJECT, accounts.show_project, insider),
    ("PATCH", PROJECT, accounts.update_project, admin),
    ("DELETE", PROJECT, removing(Project), admin),
    ("GET", TAGS, project_tags.index, insider),
    ("PUT", TAGS, project_tags.replace_all, admin),
    ("DELETE", TAGS, project_tags.clear, admin),
    ("GET", TAGS + "/{tag}", project_tags.check, insider),
    ("PUT", TAGS + "/{tag}", project_tags.add, admin),
    ("DELETE", TAGS + "/{tag}", project_tags.delete, admin),
    ("GET", ROLES_OF_USER, role_assignments.list_roles, admin),
    ("GET", ROLES_OF_USER + "/{role_id}", role_assignments.check, admin),
    ("PUT", ROLES_OF_USER + "/{role_id}", role_assignments.assign, admin),
    ("DELETE", ROLES_OF_USER + "/{role_id}", role_assignments.unassign, admin),
    ("GET", "/v3/role_assignments", role_assignments.list_all, admin),
    ("GET", "/v3/roles", accounts.list_roles, admin),
    ("POST", "/v3/roles", accounts.create_role, admin),
    ("GET", "/v3/roles/{role_id}", showing(Role), admin),
    ("PATCH", "/v3/roles/{role_id}", accounts.update_role, admin),
    ("DELETE", "/v3/roles/{role_id}", accounts.delete_role, admin),
    ("GET", ROLES_OF_GROUP, role_assignments.list_roles, admin),
    ("GET", ROLES_OF_GROUP + "/{role_id}", role_assignments.check, admin),
    ("PUT", ROLES_OF_GROUP + "/{role_id}", role_assignments.assign, admin),
    ("DELETE", ROLES_OF_GROUP + "/{role_id}", role_assignments.unassign, admin),
    ("PUT", DOMAIN + "/{holders}/{holder_id}/roles/{role_id}", role_assignments.refuse, admin),
    ("GET", SYSTEM_ROLES_OF_USER, role_assignments.list_roles, admin),
    ("GET", SYSTEM_ROLES_OF_USER + "/{role_id}", role_assignments.check, admin),
    ("PUT", SYSTEM_ROLES_OF_USER + "/{role_id}", role_assignments.assign, admin),
    ("DELETE", SYSTEM_ROLES_OF_USER + "/{role_id}", role_assignments.unassign, admin),
    ("GET", SYSTEM_ROLES_OF_GROUP, role_assignments.list_roles, admin),
    ("GET", SYSTEM_ROLES_OF_GROUP + "/{role_id}", role_assignments.check, admin),
    ("PUT", SYSTEM_ROLES_OF_GROUP + "/{role_id}", role_assignments.assign, admin),
    ("DELETE", SYSTEM_ROLES_OF_GROUP + "/{role_id}", role_assignments.unassign, admin),
    ("GET", "/v3/domains", domains.index, admin),
    ("POST", "/v3/domains", domains.create, admin),
    ("GET", DOMAIN, showing(Domain), holder),
    ("PATCH", DOMAIN, domains.update, admin),
    ("DELETE", DOMAIN, domains.delete, admin),
    ("GET", "/v3/groups", groups.index, admin),
    ("POST", "/v3/groups", groups.create, admin),
    ("GET", GROUP, showing(Group), admin),
    ("PATCH", GROUP, groups.update, admin),
    ("DELETE", GROUP, removing(Group), admin),
    ("GET", GROUP + "/users", groups.list_members, admin),
    ("GET", MEMBER, groups.check_member, admin),
    ("PUT", MEMBER, groups.add_member, admin),
    ("DELETE", MEMBER, groups.remove_member, admin),
    ("GET", USER + "/groups", groups.of_user, oneself),
    ("GET", APPLICATION_CREDENTIALS, application_credentials.index, oneself),
    ("POST", APPLICATION_CREDENTIALS, application_credentials.create, oneself),
    ("GET", APPLICATION_CREDENTIALS + "/{credential_id}", application_credentials.show, oneself),
    ("DELETE", APPLICATION_CREDENTIALS + "/{credential_id}", application_credentials.delete, oneself),
    ("GET", "/v3/credentials", credentials.index, holder),
    ("POST", "/v3/credentials", credentials.create, holder),
    ("GET", CREDENTIAL, credentials.show, holder),
    ("PATCH", CREDENTIAL, credentials.update, holder),
    ("DELETE", CREDENTIAL, credentials.delete, holder),
    ("GET", EC2, credentials.index_ec2, oneself),
    ("POST", EC2, credentials.create_ec2, oneself),
    ("GET", EC2 + "/{access}", credentials.show_ec2, oneself),
    ("DELETE", EC2 + "/{access}", credentials.delete_ec2, oneself),
    ("GET", "/v3/OS-TRUST/trusts", tokens.refuse_trusts, holder),
    ("POST", "/v3/OS-TRUST/trusts", tokens.refuse_trusts, holder),
    ("GET", "/v3/OS-TRUST/trusts/{trust_id}", tokens.refuse_trusts, holder),
    ("DELETE", "/v3/OS-TRUST/trusts/{trust_id}", tokens.refuse_trusts, holder),
    ("GET", "/v3/services", catalog_resources.list_services, admin),
    ("POST", "/v3/services", catalog_resources.create_service, admin),
    ("GET", SERVICE, catalog_resources.show_service, admin),
    ("PATCH", SERVICE, catalog_resources.update_service, admin),
    ("DELETE", SERVICE, catalog_resources.delete_service, admin),
    ("GET", "/v3/endpoints", catalog_resources.list_endpoints, admin),
    ("POST", "/v3/endpoints", catalog_resources.create_endpoint, admin),
    ("GET", ENDPOINT, catalog_resources.show_endpoint, admin),
    ("PATCH", ENDPOINT, catalog_resources.update_endpoint, admin),
    ("DELETE", ENDPOINT, catalog_resources.delete_endpoint, admin),
    ("GET", "/v3/regions", catalog_resources.list_regions, everybody),
    ("POST", "/v3/regions", catalog_resources.create_region, admin),
    ("GET", REGION, catalog_resources.show_region, everybody),
    ("PUT", REGION, catalog_resources.create_region_of_id, admin),
    ("PATCH", REGION, catalog_resources.update_region, admin),
    ("DELETE", REGION, catalog_resources.delete_region, admin),
    ("GET", "/v3/registered_limits", limits.list_registered, holder),
    ("POST", "/v3/registered_limits", limits.create_registered, admin),
    ("GET", REGISTERED_LIMIT, limits.show_registered, holder),
    ("PATCH", REGISTERED_LIMIT, limits.update_registered, admin),
    ("DELETE", REGISTERED_LIMIT, limits.delete_registered, admin),
    ("GET", "/v3/limits", limits.index, holder),
    ("POST", "/v3/limits", limits.create, admin),
    ("GET", "/v3/limits/model", limits.show_model, holder),
    ("GET", LIMIT, limits.show, holder),
    ("PATCH", LIMIT, limits.update, admin),
    ("DELETE", LIMIT, limits.delete, admin),
)


def identity_app(
    store: IdentityStore,
    clock: Clock,
    ids: IdSource,
    catalog: Catalog,
    attempts: Attempts | None = None,
) -> App:
    """Create the application, to be mounted at /identity. attempts: None: with the default costs."""
    context = Context(
        store=store,
        clock=clock,
        ids=ids,
        catalog=catalog,
        attempts=attempts or Attempts(clock),
    )
    return routed((Route(*line) for line in (*ROUTES, *not_supported.routes())), admission(context), SHAPE)
