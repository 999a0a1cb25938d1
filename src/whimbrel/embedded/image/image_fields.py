"""The fields of an image that users set: those of Glance, and custom properties.

Invariant: complete and patched images are validated by the same struct.
"""

from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from whimbrel.domain.errors import Refused
from whimbrel.embedded.image.request import Call, checked
from whimbrel.http.problem import Problem
from whimbrel.ports.services.images import ImageRecord

Text = Annotated[str, Meta(max_length=255)]
Tag = Annotated[str, Meta(min_length=1, max_length=255)]
Size = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Visibility = Literal["public", "private", "shared", "community"]
DiskFormat = Literal["ami", "ari", "aki", "vhd", "vhdx", "vmdk", "raw", "qcow2", "vdi", "iso", "ploop"]
ContainerFormat = Literal["ami", "ari", "aki", "bare", "ovf", "ova", "docker", "compressed"]
Uuid = Annotated[str, Meta(pattern="^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")]

READ_ONLY = {
    *("status", "created_at", "updated_at", "checksum", "os_hash_algo", "os_hash_value", "size", "virtual_size"),
    *("file", "self", "schema", "direct_url", "locations", "stores"),
}
RESERVED = "os_glance"
MOST_PROPERTIES = 128
MOST_TAGS = 128


class ImageFields(msgspec.Struct, kw_only=True):
    """An image as its owner sends it."""

    name: Text | None = None
    owner: Text | None = None
    visibility: Visibility = "shared"
    disk_format: DiskFormat | None = None
    container_format: ContainerFormat | None = None
    min_disk: Size = 0
    min_ram: Size = 0
    protected: bool = False
    os_hidden: bool = False
    tags: Annotated[list[Tag], Meta(max_length=MOST_TAGS)] = []
    properties: Annotated[dict[Tag, Annotated[str, Meta(max_length=65535)]], Meta(max_length=MOST_PROPERTIES)] = {}


FIELDS = frozenset(ImageFields.__struct_fields__) - {"properties"}
DISK_FORMATS = get_args(DiskFormat)
CONTAINER_FORMATS = get_args(ContainerFormat)


def of_record(record: ImageRecord) -> dict[str, Any]:
    """Return a record as its owner would send it: fields and properties in one flat object."""
    return {
        "name": record.name,
        "owner": record.owner,
        "visibility": record.visibility,
        "disk_format": record.disk_format,
        "container_format": record.container_format,
        "min_disk": record.min_disk_gib,
        "min_ram": record.min_ram_mib,
        "protected": record.protected,
        "os_hidden": record.hidden,
        "tags": record.tags,
        **record.properties,
    }


def new_record(call: Call, sent: dict[str, Any]) -> ImageRecord:
    """Return the record of a new image. Raises: Problem; Refused."""
    sent = dict(sent)
    image_id = checked(sent.pop("id", None) or call.ids.uuid(), Uuid)
    for name in sent:
        check_writable(name)
    now = call.service.clock.now()
    empty = ImageRecord(
        id=image_id, name=None, owner=call.principal.project_id, visibility="shared", disk_format=None,
        container_format=None, created_at=now, updated_at=now,
    )  # fmt: skip
    return applied(call, empty, {"owner": call.principal.project_id, **sent})


def applied(call: Call, record: ImageRecord, flat: dict[str, Any]) -> ImageRecord:
    """Return the record with the changes of a flat object. Raises: Problem: invalid; Refused: not permitted."""
    fields = {name: value for name, value in flat.items() if name in FIELDS}
    others = {name: value for name, value in flat.items() if name not in FIELDS}
    image_fields = checked({**fields, "properties": others}, ImageFields)
    _check_allowed(call, record, image_fields)
    return msgspec.structs.replace(
        record,
        name=image_fields.name,
        owner=image_fields.owner,
        visibility=image_fields.visibility,
        disk_format=image_fields.disk_format,
        container_format=image_fields.container_format,
        min_disk_gib=image_fields.min_disk,
        min_ram_mib=image_fields.min_ram,
        protected=image_fields.protected,
        hidden=image_fields.os_hidden,
        tags=sorted(set(image_fields.tags)),
        properties=image_fields.properties,
        updated_at=call.service.clock.now(),
    )


def check_writable(name: str) -> None:
    """Raises: Refused: the field is read-only."""
    if name in READ_ONLY or name == "id":
        raise Refused(f"Attribute '{name}' is read-only.")
    if name.startswith(RESERVED):
        raise Refused(f"Attribute '{name}' is reserved.")


def _check_allowed(call: Call, record: ImageRecord, image_fields: ImageFields) -> None:
    if image_fields.visibility == "public" and record.visibility != "public" and not call.is_admin:
        raise Refused("You are not authorized to publicize images.")
    if image_fields.owner != record.owner and not call.is_admin:
        raise Refused("You are not permitted to set the owner of an image.")
    formats = (image_fields.disk_format, image_fields.container_format)
    if record.stored and formats != (record.disk_format, record.container_format):
        raise Refused("The formats of an image can be changed only while it is queued.")


class Operation(msgspec.Struct):
    op: Literal["add", "replace", "remove"]
    path: str
    value: Any = None


def of_old_form(sent: dict[str, Any]) -> Operation:
    """Read a change of the media type v2.0: {"replace": "/name", "value": "x"}. Raises: Problem."""
    named = [name for name in ("add", "replace", "remove") if name in sent]
    if len(named) != 1 or set(sent) - {*named, "value"}:
        raise Problem(400, "A change has one of the keys add, replace and remove, with a path, and a value.")
    return checked({"op": named[0], "path": sent[named[0]], "value": sent.get("value")}, Operation)


def patched(flat: dict[str, Any], operations: list[Operation]) -> dict[str, Any]:
    """Return a flat object after these changes. Raises: Problem; Refused.

    Source: RFC 6902 as Glance implements it: three operations, one level.
    """
    flat = dict(flat)
    for operation in operations:
        name = _name(operation.path)
        check_writable(name)
        if operation.op == "remove" and name in FIELDS:
            raise Refused(f"Property {name} may not be removed.")
        if operation.op != "add" and name not in flat:
            raise Problem(409, f"Property {name} does not exist.")
        if operation.op == "remove":
            del flat[name]
        else:
            flat[name] = operation.value
    return flat


def _name(path: str) -> str:
    if not path.startswith("/") or "/" in path[1:] or path == "/":
        raise Problem(400, f"Pointer '{path}' does not name a property: it has the form /NAME.")
    return path[1:].replace("~1", "/").replace("~0", "~")
