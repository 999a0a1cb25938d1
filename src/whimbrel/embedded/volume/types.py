"""Volume types, and the projects that may use them."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from whimbrel.domain.errors import Invalid, NotFound, Refused
from whimbrel.embedded.volume import views
from whimbrel.embedded.volume.fields import Key, Metadata, Name, fitted, flag, wrapped
from whimbrel.embedded.volume.request import ACCEPTED, Ask
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


async def create(ask: Ask) -> Reply:
    sent = await wrapped(ask, "volume_type", NewType)
    now = ask.service.clock.now()
    record = VolumeType(
        id=ask.service.ids.uuid(),
        name=_named(sent.name),
        description=sent.description,
        public=flag(sent.is_public, "os-volume-type-access:is_public"),
        extra_specs=sent.extra_specs or {},
        created_at=now,
        updated_at=now,
    )
    await ask.store.add_type(record)
    shown = views.volume_type(ask, record)
    shown.pop("qos_specs_id", None)  # Cinder does not add it to this answer
    return Reply({"volume_type": shown})


async def search(ask: Ask) -> Reply:
    """List types: an administrator requests all with is_public=None."""
    await ask.service.default_type()
    query = ask.request.query_params
    wanted = query.get("is_public", "true" if not ask.is_admin else "none").lower()
    public = None if wanted in ("none", "null") else flag(wanted, "is_public")
    project_id = None if ask.is_admin else ask.project_id
    found = [each for each in await ask.store.types() if may_use(each, project_id)]
    if public is not None and ask.is_admin:
        found = [each for each in found if each.public == public]
    if "name" in query:
        found = [each for each in found if each.name == query["name"]]
    return Reply({"volume_types": [views.volume_type(ask, each) for each in found]})


async def show(ask: Ask) -> Reply:
    return Reply({"volume_type": views.volume_type(ask, await type_of_path(ask))})


async def show_default(ask: Ask) -> Reply:
    return Reply({"volume_type": views.volume_type(ask, await ask.service.default_type())})


async def update(ask: Ask) -> Reply:
    sent = await wrapped(ask, "volume_type", ChangedType)
    record = await type_of_path(ask)
    changes: dict[str, Any] = {"updated_at": ask.service.clock.now()}
    if sent.name is not None:
        if record.name == DEFAULT_TYPE and sent.name != DEFAULT_TYPE:
            raise Refused("The default volume type keeps its name.")
        changes["name"] = _named(sent.name)
    if sent.description is not msgspec.UNSET:
        changes["description"] = sent.description
    if sent.is_public is not None:
        changes["public"] = flag(sent.is_public, "is_public")
    shown = views.volume_type(ask, await ask.store.change_type(replace(record, **changes)))
    return Reply({"volume_type": {name: value for name, value in shown.items() if name not in NOT_CHANGED}})


async def delete(ask: Ask) -> Reply:
    record = await type_of_path(ask)
    if record.name == DEFAULT_TYPE:
        raise Refused("The default volume type cannot be deleted.")
    await ask.store.remove_type(record.id)
    return ACCEPTED


async def act(ask: Ask) -> Reply:
    """Add or remove a project's access to a type."""
    sent = await ask.body(dict[str, msgspec.Raw])
    if list(sent) not in (["addProjectAccess"], ["removeProjectAccess"]):
        raise Problem(400, "There is no such action on volume types.")
    [(name, raw)] = sent.items()
    project = fitted(ask, name, raw, Access).project
    record = await type_of_path(ask)
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
    await ask.store.change_type(replace(record, projects=projects))
    return ACCEPTED


async def show_access(ask: Ask) -> Reply:
    record = await type_of_path(ask)
    if record.public:
        raise NotFound("Everybody may use a public volume type.")
    access = [{"volume_type_id": record.id, "project_id": project} for project in record.projects]
    return Reply({"volume_type_access": access})


async def type_of_path(ask: Ask) -> VolumeType:
    """Return the type in the path. Raises: NotFound: not found, or not accessible to the requester."""
    wanted = ask.path("type_id")
    for each in await ask.store.types():
        if each.id == wanted and may_use(each, None if ask.is_admin else ask.project_id):
            return each
    raise NotFound(f"Volume type {wanted[:50]} could not be found.")


def _named(name: str) -> str:
    if not name.strip():
        raise Invalid("A volume type has a name.")
    return name.strip()
