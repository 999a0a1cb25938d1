"""Nova's routes for old clients: the last lines of the table of routes. The head of api/routes.py describes a line."""

from typing import Any

from whimbrel.api.http.call import Handler, Route
from whimbrel.api.legacy import image_proxy as images
from whimbrel.api.legacy import service_hosts as hosts
from whimbrel.api.legacy import usage_audit_log
from whimbrel.api.legacy import volume_proxy as volumes
from whimbrel.api.legacy.network_routes import NETWORKS
from whimbrel.api.legacy.refusals import REFUSALS
from whimbrel.api.schemas import legacy as bodies
from whimbrel.api.schemas.metadata import METADATA_ALL, METADATA_ONE


def _host(method: str, path: str, handler: Handler, rule: str, **more: Any) -> Route:
    return Route(method, "/os-hosts" + path, handler, "os_compute_api:os-hosts:" + rule, until=42, **more)


def _audit_log(path: str, handler: Handler, rule: str) -> Route:
    rule = "os_compute_api:os-instance-usage-audit-log:" + rule
    return Route("GET", "/os-instance_usage_audit_log" + path, handler, rule)


def _volume(method: str, path: str, handler: Handler, rule: str, **more: Any) -> Route:
    return Route(method, path, handler, "os_compute_api:os-volumes:" + rule, until=35, **more)


def _image_metadata(method: str, path: str, handler: Handler, **more: Any) -> Route:
    more = {"target": images.owner, "until": 38, **more}
    return Route(method, "/images/{image_id}/metadata" + path, handler, "whimbrel:images:update", **more)


LEGACY: tuple[Route, ...] = (
    Route("GET", "/images", images.index, None, query=bodies.IMAGES, until=35),
    Route("GET", "/images/detail", images.detail, None, query=bodies.IMAGES, until=35),
    Route("GET", "/images/{image_id}", images.show, None, until=35),
    Route(
        *("DELETE", "/images/{image_id}", images.delete, "whimbrel:images:delete"),
        target=images.owner,
        ok=204,
        until=35,
    ),
    Route("GET", "/images/{image_id}/metadata", images.metadata, None, until=38),
    Route("GET", "/images/{image_id}/metadata/{key}", images.metadata_item, None, until=38),
    _image_metadata("POST", "", images.merge_metadata, body=METADATA_ALL),
    _image_metadata("PUT", "", images.replace_metadata, body=METADATA_ALL),
    _image_metadata("PUT", "/{key}", images.put_metadata_item, body=METADATA_ONE),
    _image_metadata("DELETE", "/{key}", images.delete_metadata_item, ok=204),
    _volume("GET", "/os-volumes", volumes.index, "list", query=bodies.PAGE),
    _volume("POST", "/os-volumes", volumes.create, "create", body=bodies.VOLUME),
    _volume("GET", "/os-volumes/detail", volumes.index, "detail", query=bodies.PAGE),
    _volume("GET", "/os-volumes/{volume_id}", volumes.show, "show"),
    _volume("DELETE", "/os-volumes/{volume_id}", volumes.delete, "delete", ok=202),
    _volume("GET", "/os-snapshots", volumes.index_snapshots, "snapshots:list", query=bodies.PAGE),
    _volume("POST", "/os-snapshots", volumes.create_snapshot, "snapshots:create", body=bodies.SNAPSHOT),
    _volume("GET", "/os-snapshots/detail", volumes.index_snapshots, "snapshots:detail", query=bodies.PAGE),
    _volume("GET", "/os-snapshots/{snapshot_id}", volumes.show_snapshot, "snapshots:show"),
    _volume("DELETE", "/os-snapshots/{snapshot_id}", volumes.delete_snapshot, "snapshots:delete", ok=202),
    _host("GET", "", hosts.index, "list", query=bodies.HOSTS),
    _host("GET", "/{host}", hosts.show, "show"),
    _host("PUT", "/{host}", hosts.update, "update", body=bodies.UPDATE_HOST),
    _host("GET", "/{host}/startup", hosts.switch_power, "start"),
    _host("GET", "/{host}/shutdown", hosts.switch_power, "shutdown"),
    _host("GET", "/{host}/reboot", hosts.switch_power, "reboot"),
    _audit_log("", usage_audit_log.index, "list"),
    _audit_log("/{before}", usage_audit_log.show, "show"),
    *NETWORKS,
    *REFUSALS,
)
