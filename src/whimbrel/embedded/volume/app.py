"""Every URL of the volume service, its rule, its first version, and its handler."""

from whimbrel.embedded.volume import (
    attachments,
    metadata,
    quotas,
    service_info,
    snapshots,
    types,
    volume_actions,
    volumes,
)
from whimbrel.embedded.volume.request import SHAPE, Handler, Rule, admin, admission, member, reader
from whimbrel.embedded.volume.service import VolumeService
from whimbrel.http.app import App, routed
from whimbrel.http.routes import OPEN, Route

ATTACHMENT = "/attachments/{attachment_id}"
VOLUME = "/volumes/{volume_id}"
SNAPSHOT = "/snapshots/{snapshot_id}"
TYPE = "/types/{type_id}"
DEFAULT_TYPE = "/default-types/{target_id}"
QUOTAS = "/os-quota-sets/{target_id}"


ROUTES: tuple[tuple[str, str, Handler, Rule, int], ...] = (
    ("POST", "/attachments", attachments.create, member, attachments.SINCE),
    ("GET", "/attachments", attachments.search, reader, attachments.SINCE),
    ("GET", "/attachments/detail", attachments.search_detail, reader, attachments.SINCE),
    ("GET", ATTACHMENT, attachments.show, reader, attachments.SINCE),
    ("PUT", ATTACHMENT, attachments.update, member, attachments.SINCE),
    ("DELETE", ATTACHMENT, attachments.delete, member, attachments.SINCE),
    ("POST", ATTACHMENT + "/action", attachments.act, member, attachments.SINCE),
    ("POST", "/volumes", volumes.create, member, 0),
    ("GET", "/volumes", volumes.search, reader, 0),
    ("GET", "/volumes/detail", volumes.search_detail, reader, 0),
    ("GET", "/volumes/summary", volumes.summary, reader, 12),
    ("GET", VOLUME, volumes.show, reader, 0),
    ("PUT", VOLUME, volumes.update, member, 0),
    ("DELETE", VOLUME, volumes.delete, member, 0),
    ("POST", VOLUME + "/action", volume_actions.act, reader, 0),  # its table has the rule of each action
    ("POST", "/snapshots", snapshots.create, member, 0),
    ("GET", "/snapshots", snapshots.search, reader, 0),
    ("GET", "/snapshots/detail", snapshots.search_detail, reader, 0),
    ("GET", SNAPSHOT, snapshots.show, reader, 0),
    ("PUT", SNAPSHOT, snapshots.update, member, 0),
    ("DELETE", SNAPSHOT, snapshots.delete, member, 0),
    ("POST", SNAPSHOT + "/action", snapshots.act, member, 0),
    ("POST", "/types", types.create, admin, 0),
    ("GET", "/types", types.search, reader, 0),
    ("GET", "/types/default", types.show_default, reader, 0),
    ("GET", TYPE, types.show, reader, 0),
    ("PUT", TYPE, types.update, admin, 0),
    ("DELETE", TYPE, types.delete, admin, 0),
    ("POST", TYPE + "/action", types.act, admin, 0),
    ("GET", TYPE + "/os-volume-type-access", types.show_access, admin, 0),
    *metadata.VOLUME.routes(VOLUME + "/metadata", member),
    *metadata.SNAPSHOT.routes(SNAPSHOT + "/metadata", member),
    *metadata.TYPE.routes(TYPE + "/extra_specs", admin),
    ("GET", QUOTAS, quotas.show, reader, 0),
    ("GET", QUOTAS + "/defaults", quotas.show_defaults, reader, 0),
    ("PUT", QUOTAS, quotas.update, admin, 0),
    ("DELETE", QUOTAS, quotas.reset, admin, 0),
    ("GET", "/os-quota-class-sets/{class_name}", quotas.show_class, admin, 0),
    ("PUT", "/os-quota-class-sets/{class_name}", quotas.update_class, admin, 0),
    ("GET", "/limits", quotas.show_absolute, reader, 0),
    ("GET", "/os-availability-zone", service_info.list_zones, reader, 0),
    ("GET", "/os-services", service_info.list_services, admin, 0),
    ("PUT", "/os-services/{action}", service_info.refuse_change, admin, 0),
    ("GET", "/scheduler-stats/get_pools", service_info.list_pools, admin, 0),
    *(
        ("GET", path + detail, service_info.list_none(kind), reader, since)
        for path, kind, since, _ in service_info.NOT_SUPPORTED
        for detail in ("", "/detail")
    ),
    *(("POST", path, service_info.refuse(what), member, since) for path, _, since, what in service_info.NOT_SUPPORTED),
    ("GET", TYPE + "/encryption", service_info.show_encryption, admin, 0),
    ("POST", TYPE + "/encryption", service_info.refuse("Encrypted volumes"), admin, 0),
    ("GET", "/default-types", service_info.list_none("default_types"), admin, 62),
    ("PUT", DEFAULT_TYPE, service_info.refuse("Default volume types of single projects"), admin, 62),
    ("GET", "/resource_filters", service_info.list_filters, reader, 33),
    ("GET", "/capabilities/{host}", service_info.show_capabilities, admin, 0),
    ("GET", "/extensions", service_info.list_extensions, reader, 0),
    ("GET", "/extensions/{alias}", service_info.show_extension, reader, 0),
)


def volume_app(service: VolumeService) -> App:
    """Create the application, to be mounted at /volume. The path may contain the project."""
    documents = (
        Route("GET", "/", service_info.show_versions, OPEN),
        Route("GET", "/v3", service_info.show_version, OPEN),
    )
    routes = (
        Route(method, prefix + path, handler, rule, since)
        for prefix in ("/v3", "/v3/{project_id}")
        for method, path, handler, rule, since in ROUTES
    )
    return routed([*documents, *routes], admission(service), SHAPE, ends_in_slash=False)
