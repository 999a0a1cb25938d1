"""Every URL of the compute API in one table.

How a resource is added
1. Its handlers: a module named after it (`api/catalog/flavors.py`), one `async def name(call: Call) -> Any` per URL.
   `call` has the cloud, the engine, the principal, `call.minor` (53 for 2.53), `call.params` (of the path),
   `call.query` (key -> list of values; `call.value(key)` for one), `call.body` (decoded and checked),
   `call.links(collection, id)`, `call.may(rule, target)`. It returns the body (a dict of JSON values; None: no
   body) or a `Reply` with another status or headers. It raises domain errors (http/problem.py maps them) or
   `Problem(status, sentence)`.
2. Its schemas: `schemas/<resource>.py`. `Body({1: schema, 19: schema})`: from 2.1, from 2.19; None as a schema:
   anything is permitted. `Query({1: {"limit": single(NUMBER)}, 75: {...}}, strict_from=75)`: keys by version.
   schemas/parameters.py has the parts. Objects have `"additionalProperties": False`.
3. Its lines here. `rule` is checked before the handler runs, against the result of `target`: by default the requester's
   own project and user. A target is `async def name(call) -> Mapping[str, str]`, and may look things up.
   rule=None: the handler checks the policy, or all users are permitted. `since`/`until`: minor versions at which the
   URL exists (below and above: 404). `ok`: the status on success. `action`: one of several actions of one URL; its
   arguments are in `call.body[action]`, and the schema is of the whole body.
   Lines of one URL may repeat with other versions. A literal path takes precedence over a parameter. `query` is for
   GETs only.
"""

from typing import Any

from whimbrel.api.catalog import (
    assisted_snapshots,
    extra_specs,
    flavor_access,
    flavors,
    keypairs,
    limits,
    networks,
    quotas,
    server_groups,
    tenant_usage,
)
from whimbrel.api.hosts import aggregates, external_events, hypervisors, migrations, services, zones
from whimbrel.api.http import extensions
from whimbrel.api.http.call import Call, Handler, Route
from whimbrel.api.http.openapi import document
from whimbrel.api.http.schema import IGNORED, Body
from whimbrel.api.legacy.routes import LEGACY
from whimbrel.api.legacy.volumes_boot import volumes_boot
from whimbrel.api.own_routes import OWN_ROUTES
from whimbrel.api.policy_target import server_in_path, server_or_its_entry, server_or_its_past
from whimbrel.api.schemas import actions as action_bodies
from whimbrel.api.schemas import aggregates as aggregate_bodies
from whimbrel.api.schemas import devices as device_bodies
from whimbrel.api.schemas import flavors as flavor_bodies
from whimbrel.api.schemas import history, usage_periods
from whimbrel.api.schemas import keypairs as keypair_bodies
from whimbrel.api.schemas import live_moves as live_bodies
from whimbrel.api.schemas import metadata as metadata_bodies
from whimbrel.api.schemas import quotas as quota_bodies
from whimbrel.api.schemas import remote_consoles as console_bodies
from whimbrel.api.schemas import server_groups as group_bodies
from whimbrel.api.schemas import servers as server_bodies
from whimbrel.api.schemas import services as service_bodies
from whimbrel.api.servers import (
    actions,
    addresses,
    admin_password,
    creation,
    deletion,
    diagnostics,
    evacuate_action,
    imaging,
    instance_actions,
    interfaces,
    live_migrations,
    metadata,
    rebuilding,
    remote_consoles,
    rescuing,
    security_groups,
    servers,
    shares,
    shelving,
    tags,
    volume_attachments,
)


def _server(method: str, path: str, handler: Handler, rule: str, **more: Any) -> Route:
    """Return a route of the server in the path."""
    return Route(
        method, "/servers/{server_id}" + path, handler, "os_compute_api:" + rule, **{"target": server_in_path, **more}
    )


def _action(
    name: str, handler: Handler, rule: str, body: Body = action_bodies.ANYTHING, ok: int = 202, since: int = 1
) -> Route:
    """Return a route of an action on a server."""
    return _server("POST", "/action", handler, rule, action=name, body=body, ok=ok, since=since)


def _old_console(name: str, handler: Handler, body: Body) -> Route:
    """Return a route of an action that remote-consoles has replaced."""
    return _server("POST", "/action", handler, "os-remote-consoles", action=name, body=body, until=5)


def _flavor(method: str, path: str, handler: Handler, rule: str, **more: Any) -> Route:
    """Return a route of the flavor in the path."""
    return Route(method, "/flavors/{flavor_id}" + path, handler, "os_compute_api:os-flavor-" + rule, **more)


def _keypair(method: str, path: str, handler: Handler, rule: str, **more: Any) -> Route:
    """Return a route of keypairs; its target is their user, independent of the project."""
    rule = "os_compute_api:os-keypairs:" + rule
    return Route(method, "/os-keypairs" + path, handler, rule, target=keypairs.owner, **more)


def _quota(method: str, path: str, handler: Handler, rule: str, **more: Any) -> Route:
    """Return a route of the quota of the project in the path."""
    rule = "os_compute_api:os-quota-sets:" + rule
    return Route(method, "/os-quota-sets/{project_id}" + path, handler, rule, target=quotas.project_in_path, **more)


def _aggregate(method: str, path: str, handler: Handler, rule: str, **more: Any) -> Route:
    return Route(method, "/os-aggregates" + path, handler, "os_compute_api:os-aggregates:" + rule, **more)


def _hypervisor(path: str, handler: Handler, rule: str, **more: Any) -> Route:
    return Route("GET", "/os-hypervisors" + path, handler, "os_compute_api:os-hypervisors:" + rule, **more)


def _service(method: str, path: str, handler: Handler, rule: str, **more: Any) -> Route:
    return Route(method, "/os-services" + path, handler, "os_compute_api:os-services:" + rule, **more)


def _group(method: str, path: str, handler: Handler, rule: str, **more: Any) -> Route:
    rule = "os_compute_api:os-server-groups:" + rule
    return Route(method, "/os-server-groups" + path, handler, rule, **more)


async def describe(call: Call) -> Any:
    """Return the OpenAPI document of this table."""
    return document(ROUTES) | {"servers": [{"url": f"{call.root_url}/v2.1"}]}


# fmt: off
SERVERS: tuple[Route, ...] = (
    Route("GET", "/servers", servers.index, "os_compute_api:servers:index", query=server_bodies.LIST),
    Route("POST", "/servers", creation.create, "os_compute_api:servers:create", ok=202, body=server_bodies.CREATE),
    Route("GET", "/servers/detail", servers.detail, "os_compute_api:servers:detail", query=server_bodies.LIST),
    _server("GET", "", servers.show, "servers:show", target=server_or_its_entry),
    _server("PUT", "", servers.update, "servers:update", body=server_bodies.UPDATE),
    _server("DELETE", "", deletion.delete, "servers:delete", ok=204),

    _action("reboot", actions.reboot, "servers:reboot", action_bodies.REBOOT),
    _action("os-start", actions.start, "servers:start"),
    _action("os-stop", actions.stop, "servers:stop"),
    _action("pause", actions.pause, "os-pause-server:pause"),
    _action("unpause", actions.unpause, "os-pause-server:unpause"),
    _action("suspend", actions.suspend, "os-suspend-server:suspend"),
    _action("resume", actions.resume, "os-suspend-server:resume"),
    _action("resize", actions.resize, "servers:resize", action_bodies.RESIZE),
    _action("migrate", actions.migrate, "os-migrate-server:migrate", action_bodies.MIGRATE),
    _action("os-migrateLive", live_migrations.begin, "os-migrate-server:migrate_live", live_bodies.MIGRATE_LIVE),
    _action("confirmResize", actions.confirm_resize, "servers:confirm_resize", ok=204),
    _action("revertResize", actions.revert_resize, "servers:revert_resize"),
    _action("evacuate", evacuate_action.evacuate, "os-evacuate", action_bodies.EVACUATE, ok=200),
    _action("shelve", shelving.shelve, "os-shelve:shelve"),
    _action("shelveOffload", shelving.offload, "os-shelve:shelve_offload"),
    _action("unshelve", shelving.unshelve, "os-shelve:unshelve", action_bodies.UNSHELVE),
    _action("os-resetState", actions.reset_state, "os-admin-actions:reset_state", action_bodies.RESET_STATE),
    _action("lock", actions.lock, "os-lock-server:lock", action_bodies.LOCK),
    _action("unlock", actions.unlock, "os-lock-server:unlock"),
    _action("forceDelete", deletion.force_delete, "os-deferred-delete:force"),
    _action("restore", deletion.restore, "os-deferred-delete:restore"),
    _action("trigger_crash_dump", diagnostics.trigger_crash_dump, "servers:trigger_crash_dump",
            action_bodies.CRASH_DUMP, since=17),
    _server("GET", "/diagnostics", diagnostics.show, "os-server-diagnostics"),
    Route("GET", "/servers/{server_id}/topology", diagnostics.topology, "compute:server:topology:index", since=78,
          target=server_in_path),
    _action("rescue", rescuing.rescue, "os-rescue", action_bodies.RESCUE, ok=200),
    _action("unrescue", rescuing.unrescue, "os-unrescue"),
    _action("rebuild", rebuilding.rebuild, "servers:rebuild", action_bodies.REBUILD),
    _action("createImage", imaging.snapshot, "servers:create_image", action_bodies.CREATE_IMAGE),
    _action("createBackup", imaging.backup, "os-create-backup", action_bodies.CREATE_BACKUP),
    _action("os-getConsoleOutput", actions.console_output, "os-console-output", action_bodies.CONSOLE_OUTPUT, ok=200),

    _server("GET", "/metadata", metadata.index, "server-metadata:index"),
    _server("POST", "/metadata", metadata.merge, "server-metadata:create", body=metadata_bodies.METADATA_ALL),
    _server("PUT", "/metadata", metadata.replace, "server-metadata:update_all", body=metadata_bodies.METADATA_ALL),
    _server("GET", "/metadata/{key}", metadata.show, "server-metadata:show"),
    _server("PUT", "/metadata/{key}", metadata.put, "server-metadata:update", body=metadata_bodies.METADATA_ONE),
    _server("DELETE", "/metadata/{key}", metadata.delete, "server-metadata:delete", ok=204),

    _server("GET", "/tags", tags.index, "os-server-tags:index", since=26, query=IGNORED),
    _server("PUT", "/tags", tags.replace, "os-server-tags:update_all", body=metadata_bodies.TAGS, since=26),
    _server("DELETE", "/tags", tags.clear, "os-server-tags:delete_all", ok=204, since=26),
    _server("GET", "/tags/{tag}", tags.show, "os-server-tags:show", ok=204, since=26, query=IGNORED),
    _server("PUT", "/tags/{tag}", tags.add, "os-server-tags:update", body=metadata_bodies.NO_BODY, ok=201,
            ok_too=204, since=26),
    _server("DELETE", "/tags/{tag}", tags.remove, "os-server-tags:delete", ok=204, since=26),

    _server("GET", "/ips", addresses.index, "ips:index"),
    _server("GET", "/ips/{label}", addresses.show, "ips:show"),
)

PASSWORDS: tuple[Route, ...] = (
    _action("changePassword", admin_password.change, "os-admin-password", action_bodies.CHANGE_PASSWORD),
    _server("GET", "/os-server-password", admin_password.show, "os-server-password:show"),
    _server("DELETE", "/os-server-password", admin_password.clear, "os-server-password:clear", ok=204),
)

DEVICES: tuple[Route, ...] = (
    _server("GET", "/os-interface", interfaces.index, "os-attach-interfaces:list"),
    _server("POST", "/os-interface", interfaces.create, "os-attach-interfaces:create",
            body=device_bodies.ATTACH_INTERFACE),
    _server("GET", "/os-interface/{port_id}", interfaces.show, "os-attach-interfaces:show"),
    _server("DELETE", "/os-interface/{port_id}", interfaces.delete, "os-attach-interfaces:delete", ok=202),
    _server("GET", "/os-security-groups", security_groups.index, "os-security-groups:list"),
    _action("addSecurityGroup", security_groups.add, "os-security-groups:add", device_bodies.ADD_GROUP),
    _action("removeSecurityGroup", security_groups.remove, "os-security-groups:remove", device_bodies.REMOVE_GROUP),

    _server("GET", "/os-volume_attachments", volume_attachments.index, "os-volumes-attachments:index",
            query=device_bodies.VOLUMES),
    _server("POST", "/os-volume_attachments", volume_attachments.create, "os-volumes-attachments:create",
            body=device_bodies.ATTACH_VOLUME, ok_too=202),
    _server("GET", "/os-volume_attachments/{volume_id}", volume_attachments.show, "os-volumes-attachments:show",
            query=IGNORED),
    Route("PUT", "/servers/{server_id}/os-volume_attachments/{volume_id}", volume_attachments.update, None, ok=202,
          body=device_bodies.CHANGE_VOLUME, target=server_in_path),
    _server("DELETE", "/os-volume_attachments/{volume_id}", volume_attachments.delete, "os-volumes-attachments:delete",
            ok=202),

    _server("GET", "/shares", shares.index, "os-server-shares:index", since=97, query=device_bodies.NO_KEYS),
    _server("POST", "/shares", shares.create, "os-server-shares:create", since=97, ok=201,
            body=device_bodies.ATTACH_SHARE),
    _server("GET", "/shares/{share_id}", shares.show, "os-server-shares:show", since=97,
            query=device_bodies.NO_KEYS),
    _server("DELETE", "/shares/{share_id}", shares.delete, "os-server-shares:delete", since=97),
    Route("POST", "/os-assisted-volume-snapshots", assisted_snapshots.create,
          "os_compute_api:os-assisted-volume-snapshots:create", body=device_bodies.ASSISTED_SNAPSHOT),
    Route("DELETE", "/os-assisted-volume-snapshots/{snapshot_id}", assisted_snapshots.delete,
          "os_compute_api:os-assisted-volume-snapshots:delete", ok=204, query=device_bodies.DELETE_ASSISTED),

    Route("POST", "/os-server-external-events", external_events.create,
          "os_compute_api:os-server-external-events:create", ok_too=207, body=device_bodies.EVENTS),
)

CONSOLES: tuple[Route, ...] = (
    _server("POST", "/remote-consoles", remote_consoles.create, "os-remote-consoles", since=6,
            body=console_bodies.CREATE),
    _old_console("os-getVNCConsole", remote_consoles.act, console_bodies.GET_VNC),
    _old_console("os-getSPICEConsole", remote_consoles.act, console_bodies.GET_SPICE),
    _old_console("os-getSerialConsole", remote_consoles.act, console_bodies.GET_SERIAL),
    Route("GET", "/os-console-auth-tokens/{token}", remote_consoles.show_token,
          "os_compute_api:os-console-auth-tokens", query=console_bodies.TOKEN),
)

HISTORY: tuple[Route, ...] = (
    _server("GET", "/os-instance-actions", instance_actions.index, "os-instance-actions:list",
            query=history.ACTIONS, target=server_or_its_past),
    _server("GET", "/os-instance-actions/{request_id}", instance_actions.show, "os-instance-actions:show",
            target=server_or_its_past),
    _server("GET", "/migrations", live_migrations.index, "servers:migrations:index", since=23),
    _server("GET", "/migrations/{migration_id}", live_migrations.show, "servers:migrations:show", since=23),
    _server("DELETE", "/migrations/{migration_id}", live_migrations.abort, "servers:migrations:delete", ok=202,
            since=24),
    _server("POST", "/migrations/{migration_id}/action", live_migrations.force_complete,
            "servers:migrations:force_complete", ok=202, since=22, action="force_complete",
            body=live_bodies.FORCE_COMPLETE),
    Route("GET", "/os-migrations", migrations.index, "os_compute_api:os-migrations:index", query=history.MIGRATIONS),
)

OTHERS: tuple[Route, ...] = (
    Route("GET", "/os-networks", networks.index, "os_compute_api:os-networks:list", until=35),
    Route("GET", "/os-networks/{network_id}", networks.show, "os_compute_api:os-networks:show", until=35),
    _group("GET", "", server_groups.index, "index", query=group_bodies.LIST),
    _group("POST", "", server_groups.create, "create", body=group_bodies.CREATE),
    _group("GET", "/{group_id}", server_groups.show, "show", target=server_groups.group_in_path),
    _group("DELETE", "/{group_id}", server_groups.delete, "delete", ok=204, target=server_groups.group_in_path),
    Route("GET", "/extensions", extensions.index, "os_compute_api:extensions"),
    Route("GET", "/extensions/{alias}", extensions.show, "os_compute_api:extensions"),
)

# Flavors, keypairs, quotas, limits, aggregates, hypervisors, services, zones.
FLAVORS: tuple[Route, ...] = (
    Route("GET", "/flavors", flavors.index, None, query=flavor_bodies.LIST),
    Route("POST", "/flavors", flavors.create, "os_compute_api:os-flavor-manage:create", body=flavor_bodies.CREATE),
    Route("GET", "/flavors/detail", flavors.detail, None, query=flavor_bodies.LIST),
    Route("GET", "/flavors/{flavor_id}", flavors.show, None),
    _flavor("PUT", "", flavors.update, "manage:update", body=flavor_bodies.UPDATE, since=55),
    _flavor("DELETE", "", flavors.delete, "manage:delete", ok=202),

    _flavor("GET", "/os-extra_specs", extra_specs.index, "extra-specs:index"),
    _flavor("POST", "/os-extra_specs", extra_specs.create, "extra-specs:create", body=flavor_bodies.ADD_SPECS),
    _flavor("GET", "/os-extra_specs/{key}", extra_specs.show, "extra-specs:show"),
    _flavor("PUT", "/os-extra_specs/{key}", extra_specs.update, "extra-specs:update", body=flavor_bodies.SET_SPEC),
    _flavor("DELETE", "/os-extra_specs/{key}", extra_specs.delete, "extra-specs:delete"),

    _flavor("GET", "/os-flavor-access", flavor_access.index, "access"),
    _flavor("POST", "/action", flavor_access.add, "access:add_tenant_access", action="addTenantAccess",
            body=flavor_bodies.ADD_ACCESS),
    _flavor("POST", "/action", flavor_access.remove, "access:remove_tenant_access", action="removeTenantAccess",
            body=flavor_bodies.REMOVE_ACCESS),
)

LIMITS: tuple[Route, ...] = (
    _keypair("GET", "", keypairs.index, "index", query=keypair_bodies.LIST),
    _keypair("POST", "", keypairs.create, "create", body=keypair_bodies.CREATE, ok=201, ok_too=200),
    _keypair("GET", "/{name}", keypairs.show, "show", query=keypair_bodies.ONE),
    _keypair("DELETE", "/{name}", keypairs.delete, "delete", query=keypair_bodies.ONE, ok=204, ok_too=202),

    Route("GET", "/limits", limits.index, "os_compute_api:limits", query=quota_bodies.LIMITS),
    _quota("GET", "", quotas.show, "show", query=quota_bodies.OF_USER),
    _quota("PUT", "", quotas.update, "update", body=quota_bodies.UPDATE, query=quota_bodies.OF_USER),
    _quota("DELETE", "", quotas.delete, "delete", ok=202, query=quota_bodies.OF_USER),
    _quota("GET", "/detail", quotas.detail, "detail", query=quota_bodies.OF_USER),
    _quota("GET", "/defaults", quotas.defaults, "defaults", query=IGNORED),
    Route("GET", "/os-quota-class-sets/{name}", quotas.show_class, "os_compute_api:os-quota-class-sets:show"),
    Route("PUT", "/os-quota-class-sets/{name}", quotas.update_class, "os_compute_api:os-quota-class-sets:update",
          body=quota_bodies.UPDATE_CLASS),
    Route("GET", "/os-simple-tenant-usage", tenant_usage.index, "os_compute_api:os-simple-tenant-usage:list",
          query=usage_periods.LIST),
    Route("GET", "/os-simple-tenant-usage/{project_id}", tenant_usage.show,
          "os_compute_api:os-simple-tenant-usage:show", query=usage_periods.ONE, target=quotas.project_in_path),
)

HOSTS: tuple[Route, ...] = (
    Route("GET", "/os-availability-zone", zones.index, "os_compute_api:os-availability-zone:list"),
    Route("GET", "/os-availability-zone/detail", zones.detail, "os_compute_api:os-availability-zone:detail"),

    _aggregate("GET", "", aggregates.index, "index"),
    _aggregate("POST", "", aggregates.create, "create", body=aggregate_bodies.CREATE),
    _aggregate("GET", "/{aggregate_id}", aggregates.show, "show"),
    _aggregate("PUT", "/{aggregate_id}", aggregates.update, "update", body=aggregate_bodies.UPDATE),
    _aggregate("DELETE", "/{aggregate_id}", aggregates.delete, "delete"),
    _aggregate("POST", "/{aggregate_id}/action", aggregates.add_host, "add_host", action="add_host",
               body=aggregate_bodies.ADD_HOST),
    _aggregate("POST", "/{aggregate_id}/action", aggregates.remove_host, "remove_host", action="remove_host",
               body=aggregate_bodies.REMOVE_HOST),
    _aggregate("POST", "/{aggregate_id}/action", aggregates.set_metadata, "set_metadata", action="set_metadata",
               body=aggregate_bodies.SET_METADATA),
    _aggregate("POST", "/{aggregate_id}/images", aggregates.cache_images, "images", ok=202, since=81,
               body=aggregate_bodies.IMAGES),

    _hypervisor("", hypervisors.index, "list", query=service_bodies.HYPERVISORS),
    _hypervisor("/detail", hypervisors.detail, "list-detail", query=service_bodies.HYPERVISORS),
    _hypervisor("/statistics", hypervisors.statistics, "statistics", until=87),
    _hypervisor("/{hypervisor_id}", hypervisors.show, "show", query=service_bodies.HYPERVISOR),
    _hypervisor("/{hypervisor_id}/uptime", hypervisors.uptime, "uptime", until=87),
    _hypervisor("/{hypervisor_id}/search", hypervisors.search, "search", until=52),
    _hypervisor("/{hypervisor_id}/servers", hypervisors.servers, "servers", until=52),

    _service("GET", "", services.index, "list", query=service_bodies.SERVICES),
    _service("PUT", "/enable", services.enable, "update", body=service_bodies.UPDATE, until=52),
    _service("PUT", "/disable", services.disable, "update", body=service_bodies.UPDATE, until=52),
    _service("PUT", "/disable-log-reason", services.disable_with_reason, "update", body=service_bodies.UPDATE,
             until=52),
    _service("PUT", "/force-down", services.force_down, "update", body=service_bodies.UPDATE, since=11, until=52),
    _service("PUT", "/{service_id}", services.unknown_action, "update", body=service_bodies.UPDATE, until=52),
    _service("PUT", "/{service_id}", services.update, "update", body=service_bodies.UPDATE, since=53),
    _service("DELETE", "/{service_id}", services.delete, "delete", ok=204),
)
# fmt: on

DESCRIPTION: tuple[Route, ...] = (Route("GET", "/whimbrel/openapi.json", describe, None),)

ROUTES: tuple[Route, ...] = (
    *(
        *SERVERS,
        *volumes_boot(SERVERS),
        *PASSWORDS,
        *DEVICES,
        *CONSOLES,
        *HISTORY,
        *OWN_ROUTES,
        *DESCRIPTION,
        *OTHERS,
        *FLAVORS,
        *LIMITS,
        *HOSTS,
        *LEGACY,
    ),
)
