"""Who may do what with the compute API: one table of rules, with Nova's defaults."""

from collections.abc import Mapping
from typing import Final

ADMIN: Final = "rule:context_is_admin"
MANAGER: Final = "rule:project_manager_or_admin"
MEMBER: Final = "rule:project_member_or_admin"
READER: Final = "rule:project_reader_or_admin"
SELF_OR_ADMIN: Final = "(rule:context_is_admin) or user_id:%(user_id)s"
EVERYBODY: Final = "@"
NOBODY: Final = "!"

BASE_RULES: Final[Mapping[str, str]] = {
    "context_is_admin": "role:admin",
    "project_manager_api": "role:manager and project_id:%(project_id)s",
    "project_member_api": "role:member and project_id:%(project_id)s",
    "project_reader_api": "role:reader and project_id:%(project_id)s",
    "service_api": "role:service",
    "project_manager_or_admin": "rule:project_manager_api or rule:context_is_admin",
    "project_member_or_admin": "rule:project_member_api or rule:context_is_admin",
    "project_reader_or_admin": "rule:project_reader_api or rule:context_is_admin",
    "service_or_admin": "rule:service_api or rule:context_is_admin",
}

# Source: the policy reference of Nova 34; rules of routes that we have.
RULES: Final[Mapping[str, str]] = {
    "os_compute_api:extensions": EVERYBODY,
    # servers
    "os_compute_api:servers:index": READER,
    "os_compute_api:servers:index:get_all_tenants": ADMIN,
    "os_compute_api:servers:detail": READER,
    "os_compute_api:servers:detail:get_all_tenants": ADMIN,
    "os_compute_api:servers:allow_all_filters": ADMIN,
    "os_compute_api:servers:show": READER,
    "os_compute_api:servers:show:flavor-extra-specs": READER,
    "os_compute_api:servers:show:host_status": ADMIN,
    "os_compute_api:servers:show:host_status:unknown-only": ADMIN,
    "os_compute_api:os-extended-server-attributes": ADMIN,
    "os_compute_api:servers:create": MEMBER,
    "os_compute_api:servers:create:forced_host": ADMIN,
    "compute:servers:create:requested_destination": ADMIN,
    "os_compute_api:servers:create:zero_disk_flavor": ADMIN,
    "os_compute_api:servers:update": MEMBER,
    "os_compute_api:servers:delete": MEMBER,
    "os_compute_api:servers:start": MEMBER,
    "os_compute_api:servers:stop": MEMBER,
    "os_compute_api:servers:reboot": MEMBER,
    "os_compute_api:servers:create_image": MEMBER,
    "os_compute_api:os-console-output": MEMBER,
    "os_compute_api:os-lock-server:lock": MEMBER,
    "os_compute_api:os-lock-server:unlock": MEMBER,
    "os_compute_api:os-lock-server:unlock:unlock_override": ADMIN,
    "os_compute_api:os-admin-actions:reset_state": ADMIN,
    # moves
    "os_compute_api:servers:resize": MEMBER,
    "compute:servers:resize:cross_cell": NOBODY,
    "os_compute_api:servers:confirm_resize": MEMBER,
    "os_compute_api:servers:revert_resize": MEMBER,
    "os_compute_api:os-migrate-server:migrate": MANAGER,
    "os_compute_api:os-migrate-server:migrate:host": ADMIN,
    "os_compute_api:os-migrations:index": MANAGER,
    "os_compute_api:os-migrations:index:all_projects": ADMIN,
    "os_compute_api:os-migrations:index:host": ADMIN,
    "os_compute_api:servers:migrations:index": MANAGER,
    "os_compute_api:servers:migrations:show": ADMIN,
    "os_compute_api:os-instance-actions:list": READER,
    "os_compute_api:os-instance-actions:show": READER,
    "os_compute_api:os-instance-actions:events": ADMIN,
    "os_compute_api:os-instance-actions:events:details": ADMIN,
    "whimbrel:moves:index": ADMIN,
    "whimbrel:moves:show": ADMIN,
    "whimbrel:moves:retry": ADMIN,
    "whimbrel:moves:turn_back": ADMIN,
    # metadata, tags, addresses
    "os_compute_api:server-metadata:index": READER,
    "os_compute_api:server-metadata:show": READER,
    "os_compute_api:server-metadata:create": MEMBER,
    "os_compute_api:server-metadata:update_all": MEMBER,
    "os_compute_api:server-metadata:update": MEMBER,
    "os_compute_api:server-metadata:delete": MEMBER,
    "os_compute_api:os-server-tags:index": READER,
    "os_compute_api:os-server-tags:show": READER,
    "os_compute_api:os-server-tags:update_all": MEMBER,
    "os_compute_api:os-server-tags:update": MEMBER,
    "os_compute_api:os-server-tags:delete_all": MEMBER,
    "os_compute_api:os-server-tags:delete": MEMBER,
    "os_compute_api:ips:index": READER,
    "os_compute_api:ips:show": READER,
    # flavors
    "os_compute_api:os-flavor-manage:create": ADMIN,
    "os_compute_api:os-flavor-manage:update": ADMIN,
    "os_compute_api:os-flavor-manage:delete": ADMIN,
    "os_compute_api:os-flavor-access": ADMIN,
    "os_compute_api:os-flavor-access:add_tenant_access": ADMIN,
    "os_compute_api:os-flavor-access:remove_tenant_access": ADMIN,
    "os_compute_api:os-flavor-extra-specs:index": READER,
    "os_compute_api:os-flavor-extra-specs:show": READER,
    "os_compute_api:os-flavor-extra-specs:create": ADMIN,
    "os_compute_api:os-flavor-extra-specs:update": ADMIN,
    "os_compute_api:os-flavor-extra-specs:delete": ADMIN,
    # keypairs
    "os_compute_api:os-keypairs:index": SELF_OR_ADMIN,
    "os_compute_api:os-keypairs:show": SELF_OR_ADMIN,
    "os_compute_api:os-keypairs:create": SELF_OR_ADMIN,
    "os_compute_api:os-keypairs:delete": SELF_OR_ADMIN,
    # limits and quotas
    "os_compute_api:limits": EVERYBODY,
    "os_compute_api:limits:other_project": ADMIN,
    "os_compute_api:os-quota-sets:show": READER,
    "os_compute_api:os-quota-sets:detail": READER,
    "os_compute_api:os-quota-sets:defaults": EVERYBODY,
    "os_compute_api:os-quota-sets:update": ADMIN,
    "os_compute_api:os-quota-sets:delete": ADMIN,
    "os_compute_api:os-quota-class-sets:show": ADMIN,
    "os_compute_api:os-quota-class-sets:update": ADMIN,
    # hosts
    "os_compute_api:os-availability-zone:list": EVERYBODY,
    "os_compute_api:os-availability-zone:detail": ADMIN,
    "os_compute_api:os-aggregates:index": ADMIN,
    "os_compute_api:os-aggregates:show": ADMIN,
    "os_compute_api:os-aggregates:create": ADMIN,
    "os_compute_api:os-aggregates:update": ADMIN,
    "os_compute_api:os-aggregates:delete": ADMIN,
    "os_compute_api:os-aggregates:add_host": ADMIN,
    "os_compute_api:os-aggregates:remove_host": ADMIN,
    "os_compute_api:os-aggregates:set_metadata": ADMIN,
    "os_compute_api:os-hypervisors:list": ADMIN,
    "os_compute_api:os-hypervisors:list-detail": ADMIN,
    "os_compute_api:os-hypervisors:statistics": ADMIN,
    "os_compute_api:os-hypervisors:show": ADMIN,
    "os_compute_api:os-hypervisors:uptime": ADMIN,
    "os_compute_api:os-hypervisors:search": ADMIN,
    "os_compute_api:os-hypervisors:servers": ADMIN,
    "os_compute_api:os-services:list": ADMIN,
    "os_compute_api:os-services:update": ADMIN,
    "os_compute_api:os-services:delete": ADMIN,
}

DEFAULTS: Final[Mapping[str, str]] = {**BASE_RULES, **RULES}
