"""Volume types, and the projects that may use them."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from whimbrel.domain.errors import Invalid, NotFound, Refused
from whimbrel.embedded.volume import views
from whimbrel.embedded.volume.fields import Key, Metadata, Name, fitted, flag, wrapped
from whimbrel.embedded.volume.request import ACCEPTED, Call
from whimbrel.embedded.volume.service import DEFAULT_TYPE, may_use
from whimbrel.http.problem import Problem
from whimbrel.http.reply import Reply
from whimbrel.ports.embedded.volume_store import VolumeType

ProjectId = Annotated[str, Meta(min_length=1, max_length=255)]


NOT_CHANGED = ("os-volume-type-access:is_public", "qos_specs_id")
"""Fields that Cinder shows of a type, but not in the answer to a change of it."""


class NewType(msgspec.Struct, kw_only=True):
    name: Key
    description: Name | None = None
    extra_specs: Metadata | None = None
    is_public: bool | str = msgspec.field(default=True, name="os-volume-type-access:is_public")


class ChangedType(msgspec.Struct, kw_only=True):
    name: Key | None = None
    description: Name | msgspec.UnsetType | None = msgspec.UNSET
    is_public: bool | str | None = None


class Access(msgspec.Struct, kw_only=True):
    project: ProjectId


async def create(call: Call) -> Reply:
    sent = await wrapped(call, "volume_type", NewType)
    now = call.service.clock.now()
    record = VolumeType(
        id=call.service.ids.uuid(),
        name=_named(sent.name),
        description=sent.description,
        public=flag(sent.is_public, "os-volume-type-access:is_public"),
        extra_specs=sent.extra_specs or {},
        created_at=now,
        updated_at=now,
    )
    await call.store.add_type(record)
    shown = views.volume_type(call, record)
    shown.pop("qos_specs_id", None)  # Cinder does not add it to this answer
    return Reply({"volume_type": shown})


async def search(call: Call) -> Reply:
    """List types: an administrator requests all with is_public=None."""
    await call.service.default_type()
    query = call.request.query_params
    wanted = query.get("is_public", "true" if not call.is_admin else "none").lower()
    public = None if wanted in ("none", "null") else flag(wanted, "is_public")
    project_id = None if call.is_admin else call.project_id
    found = [each for each in await call.store.types() if may_use(each, project_id)]
    if public is not None and call.is_admin:
        found = [each for each in found if each.public == public]
    if "name" in query:
        found = [each for each in found if each.name == query["name"]]
    return Reply({"volume_types": [views.volume_type(call, each) for each in found]})


async def show(call: Call) -> Reply:
    return Reply({"volume_type": views.volume_type(call, await type_of_path(call))})


async def show_default(call: Call) -> Reply:
    return Reply({"volume_type": views.volume_type(call, await call.service.default_type())})


async def update(call: Call) -> Reply:
    sent = await wrapped(call, "volume_type", ChangedType)
    record = await type_of_path(call)
    changes: dict[str, Any] = {"updated_at": call.service.clock.now()}
    if sent.name is not None:
        if record.name == DEFAULT_TYPE and sent.name != DEFAULT_TYPE:
            raise Refused("The default volume type keeps its name.")
        changes["name"] = _named(sent.name)
    if sent.description is not msgspec.UNSET:
        changes["description"] = sent.description
    if sent.is_public is not None:
        changes["public"] = flag(sent.is_public, "is_public")
    shown = views.volume_type(call, await call.store.change_type(replace(record, **changes)))
    return Reply({"volume_type": {name: value for name, value in shown.items() if name not in NOT_CHANGED}})


async def delete(call: Call) -> Reply:
    record = await type_of_path(call)
    if record.name == DEFAULT_TYPE:
        raise Refused("The default volume type cannot be deleted.")
    await call.store.remove_type(record.id)
    return ACCEPTED


async def act(call: Call) -> Reply:
    """Add or remove a project's access to a type."""
    sent = await call.body(dict[str, msgspec.Raw])
    if list(sent) not in (["addProjectAccess"], ["removeProjectAccess"]):
        raise Problem(400, "There is no such action on volume types.")
    [(name, raw)] = sent.items()
    project = fitted(call, name, raw, Access).project
    record = await type_of_path(call)
    if record.public:
        raise Problem(409, "Everybody may use a public volume type.")
    if name == "addProjectAccess":
        if project in record.projects:
            raise Problem(409, f"Project {project} may use it already.")
        projects = sorted({*record.projects, project})
    else:
        if project not in record.projects:
            raise NotFound(f"Project {project} has no access to volume type {record.id}.")
        projects = [each for each in record.projects if each != project]
    await call.store.change_type(replace(record, projects=projects))
    return ACCEPTED


async def show_access(call: Call) -> Reply:
    record = await type_of_path(call)
    if record.public:
        raise NotFound("Everybody may use a public volume type.")
    access = [{"volume_type_id": record.id, "project_id": project} for project in record.projects]
    return Reply({"volume_type_access": access})


async def type_of_path(call: Call) -> VolumeType:
    """Return the type in the path. Raises: NotFound: not found, or not accessible to the requester."""
    wanted = call.path("type_id")
    for each in await call.store.types():
        if each.id == wanted and may_use(each, None if call.is_admin else call.project_id):
            return each
    raise NotFound(f"Volume type {wanted[:50]} could not be found.")


def _named(name: str) -> str:
    if not name.strip():
        raise Invalid("A volume type has a name.")
    return name.strip()
