"""The embedded image service's records in a database. The files are named in the rows."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.markers import behind
from whimbrel.adapters.sql.engine.turns import wait_for_turn
from whimbrel.adapters.sql.metadef_store import SqlMetadefs
from whimbrel.adapters.sql.tables.images import images, members, properties, tags
from whimbrel.domain.errors import Conflict, NotFound, OverQuota, Refused
from whimbrel.ports.services.images import ImageQuery, ImageRecord, ImageUsage, Member, StoredFile

_IMAGE = images.c.id == sa.bindparam("image")
_FIND = fixed(sa.select(images).where(_IMAGE))
_PROPERTIES = fixed(sa.select(properties).where(properties.c.image_id.in_(sa.bindparam("images", expanding=True))))
_TAGS = fixed(sa.select(tags).where(tags.c.image_id.in_(sa.bindparam("images", expanding=True))).order_by(tags.c.tag))
_ATTACH = sa.update(images).where(_IMAGE, images.c.file_name.is_(None))
_NAMES_FILE = sa.select(images.c.id).where(images.c.file_name == sa.bindparam("file"))
_MEMBERS = sa.select(members).where(members.c.image_id == sa.bindparam("image")).order_by(members.c.project_id)
_MEMBER = (members.c.image_id == sa.bindparam("image"), members.c.project_id == sa.bindparam("project"))

_OWNED = fixed(sa.select(images.c.file_name, images.c.size_bytes).where(images.c.owner == sa.bindparam("owner")))

_OWN_COLUMNS = (
    "id", "name", "owner", "visibility", "disk_format", "container_format", "min_disk_gib", "min_ram_mib",
    "protected", "hidden", "created_at", "updated_at", "generation", "held",
)  # fmt: skip

# Sort keys; NULL sorts as the smallest value.
_ORDERS: dict[str, sa.ColumnElement[Any]] = {
    "id": images.c.id,
    "name": sa.func.coalesce(images.c.name, ""),
    "owner": sa.func.coalesce(images.c.owner, ""),
    "visibility": images.c.visibility,
    "disk_format": sa.func.coalesce(images.c.disk_format, ""),
    "container_format": sa.func.coalesce(images.c.container_format, ""),
    "size_bytes": sa.func.coalesce(images.c.size_bytes, -1),
    "status": sa.case((images.c.file_name.is_(None), "queued"), else_=sa.func.coalesce(images.c.held, "active")),
    "created_at": images.c.created_at,
    "updated_at": images.c.updated_at,
}


class SqlImages(SqlMetadefs):
    """Implements ports.services.images.ImageStore."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def add(self, record: ImageRecord, most: int = -1) -> None:
        async with self._db.write() as tx:
            if most >= 0 and record.owner:
                await _check_number(tx, record.owner, most)
            if await tx.row(_FIND, {"image": record.id}) is not None:
                raise Conflict(f"Image ID {record.id} already exists!")
            await tx.run(sa.insert(images), _columns(record))
            await _write_extras(tx, record)

    async def usage(self, project_id: str, but: Collection[str] = ()) -> ImageUsage:
        found = await self._db.rows(_OWNED, {"owner": project_id})
        return ImageUsage(
            images=len(found), size_bytes=sum(row.size_bytes or 0 for row in found if row.file_name not in but)
        )

    async def find(self, image_id: str) -> ImageRecord:
        async with self._db.read() as tx:
            found, *extras = await tx.ask((_FIND, {"image": image_id}), *_asked_of([image_id]))
        if not found:
            raise _missing(image_id)
        return _joined(found, *extras)[0]

    async def search(self, query: ImageQuery) -> list[ImageRecord]:
        async with self._db.read() as tx:
            return await _records(tx, await tx.rows(_search(query)))

    async def change(self, record: ImageRecord) -> ImageRecord:
        now = msgspec.structs.replace(record, generation=record.generation + 1)
        async with self._db.write() as tx:
            guard = (images.c.id == record.id, images.c.generation == record.generation)
            done = await tx.run(sa.update(images).where(*guard).values(**_columns(now)))
            if done.rowcount == 0:
                await _explain(tx, record.id)
            for table in (properties, tags):
                await tx.run(sa.delete(table).where(table.c.image_id == record.id))
            await _write_extras(tx, now)
        return now

    async def attach_file(self, image_id: str, stored: StoredFile, now: float, held: str | None = None) -> None:
        values = {
            "file_name": stored.name,
            "size_bytes": stored.size_bytes,
            "md5": stored.md5,
            "sha512": stored.sha512,
            "held": held,
            "updated_at": now,
            "generation": images.c.generation + 1,
        }
        async with self._db.write() as tx:
            done = await tx.run(_ATTACH.values(**values), {"image": image_id})
            if done.rowcount == 0:
                await _explain(tx, image_id)

    async def remove(self, image_id: str) -> StoredFile | None:
        async with self._db.write() as tx:
            row = await tx.row(_FIND.with_for_update(), {"image": image_id})
            if row is None:
                raise _missing(image_id)
            if row.protected:
                raise Refused(f"Image {image_id} is protected and cannot be deleted.")
            await tx.run(sa.delete(images).where(images.c.id == image_id))
        return _stored(row)

    async def names_file(self, name: str) -> bool:
        return await self._db.row(_NAMES_FILE, {"file": name}) is not None

    async def members(self, image_id: str) -> list[Member]:
        return [Member(**row._mapping) for row in await self._db.rows(_MEMBERS, {"image": image_id})]

    async def add_member(self, member: Member) -> None:
        where = {"image": member.image_id, "project": member.project_id}
        async with self._db.write() as tx:
            if await tx.row(_FIND, {"image": member.image_id}) is None:
                raise _missing(member.image_id)
            if await tx.row(sa.select(members).where(*_MEMBER), where) is not None:
                raise Conflict(f"Project {member.project_id} is already a member of image {member.image_id}.")
            await tx.run(sa.insert(members), msgspec.structs.asdict(member))

    async def change_member(self, image_id: str, project_id: str, status: str, now: float) -> Member:
        where = {"image": image_id, "project": project_id}
        async with self._db.write() as tx:
            await tx.run(sa.update(members).where(*_MEMBER).values(status=status, updated_at=now), where)
            row = await tx.row(sa.select(members).where(*_MEMBER), where)
            if row is None:
                raise _no_member(image_id, project_id)
        return Member(**row._mapping)

    async def remove_member(self, image_id: str, project_id: str) -> None:
        async with self._db.write() as tx:
            where = {"image": image_id, "project": project_id}
            done = await tx.run(sa.delete(members).where(*_MEMBER), where)
            if done.rowcount == 0:
                raise _no_member(image_id, project_id)


def _search(query: ImageQuery) -> sa.Select[Any]:
    order = [_ORDERS[name].desc() if down else _ORDERS[name].asc() for name, down in query.order]
    statement = sa.select(images).where(_seen_by(query)).order_by(*order).limit(query.limit)
    for name, values in query.columns.items():
        statement = statement.where(images.c[name].in_(values))
    if query.status:
        statement = statement.where(_ORDERS["status"].in_(query.status))
    for tag in query.tags:
        statement = statement.where(sa.exists().where(tags.c.image_id == images.c.id, tags.c.tag == tag))
    for name, value in query.properties.items():
        same = (properties.c.name == name, properties.c.value == value)
        statement = statement.where(sa.exists().where(properties.c.image_id == images.c.id, *same))
    if query.size_min is not None:
        statement = statement.where(images.c.size_bytes >= query.size_min)
    if query.size_max is not None:
        statement = statement.where(images.c.size_bytes <= query.size_max)
    if query.after is not None:
        last = [(_ORDERS[name], _order_value(query.after, name), down) for name, down in query.order]
        statement = statement.where(behind(last))
    return statement


def _seen_by(query: ImageQuery) -> sa.ColumnElement[bool]:
    """Return the condition for images that a viewer sees in a list."""
    visibility, mine = images.c.visibility, images.c.owner == query.viewer
    if query.viewer is None:
        if query.visibility is None:
            return visibility != "community"
        return sa.true() if query.visibility == "all" else visibility == query.visibility
    found = sa.or_(mine, visibility == "public", _shared_with(query.viewer, query.member_status))
    if query.visibility is None:
        return found
    found = sa.or_(found, visibility == "community")
    return found if query.visibility == "all" else sa.and_(found, visibility == query.visibility)


def _shared_with(project_id: str, status: str) -> sa.ColumnElement[bool]:
    member = sa.exists().where(members.c.image_id == images.c.id, members.c.project_id == project_id)
    if status != "all":
        member = member.where(members.c.status == status)
    return sa.and_(images.c.visibility == "shared", member)


def _order_value(record: ImageRecord, name: str) -> Any:
    if name == "size_bytes":
        return record.stored.size_bytes if record.stored else -1
    value = getattr(record, name)
    return "" if value is None else value


async def _records(tx: Tx, rows: Sequence[sa.Row[Any]]) -> list[ImageRecord]:
    if not rows:
        return []
    return _joined(rows, *await tx.ask(*_asked_of([row.id for row in rows])))


def _asked_of(ids: list[str]) -> list[tuple[sa.Executable, Mapping[str, Any] | None]]:
    """Return the statements for what `_joined` adds to the rows of these images."""
    return [(_PROPERTIES, {"images": ids}), (_TAGS, {"images": ids})]


def _joined(rows: Sequence[Any], extras: Sequence[Any], tag_rows: Sequence[Any]) -> list[ImageRecord]:
    has: dict[str, dict[str, str]] = defaultdict(dict)
    for extra in extras:
        has[extra.image_id][extra.name] = extra.value
    tagged: dict[str, list[str]] = defaultdict(list)
    for extra in tag_rows:
        tagged[extra.image_id].append(extra.tag)
    return [
        ImageRecord(
            **{name: getattr(row, name) for name in _OWN_COLUMNS},
            properties=has[row.id],
            tags=tagged[row.id],
            stored=_stored(row),
        )
        for row in rows
    ]


def _stored(row: sa.Row[Any]) -> StoredFile | None:
    if row.file_name is None:
        return None
    return StoredFile(name=row.file_name, size_bytes=row.size_bytes, md5=row.md5, sha512=row.sha512)


def _columns(record: ImageRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in _OWN_COLUMNS}


async def _check_number(tx: Tx, project_id: str, most: int) -> None:
    """Raises: OverQuota: one more image would exceed the project's limit."""
    await wait_for_turn(tx, f"images of {project_id}")
    has = len(await tx.rows(_OWNED, {"owner": project_id}))
    if has >= most:
        raise OverQuota(f"The project may have {most} images and has {has}.")


async def _write_extras(tx: Tx, record: ImageRecord) -> None:
    if record.properties:
        rows = [{"image_id": record.id, "name": name, "value": value} for name, value in record.properties.items()]
        await tx.run(sa.insert(properties), rows)
    if record.tags:
        await tx.run(sa.insert(tags), [{"image_id": record.id, "tag": tag} for tag in record.tags])


async def _explain(tx: Tx, image_id: str) -> None:
    """Raise the reason why a guarded change matched no row."""
    if await tx.row(_FIND, {"image": image_id}) is None:
        raise _missing(image_id)
    raise Conflict(f"Image {image_id} has been changed meanwhile: look again.")


def _missing(image_id: str) -> NotFound:
    return NotFound(f"No image found with ID {image_id}")


def _no_member(image_id: str, project_id: str) -> NotFound:
    return NotFound(f"{project_id} is not a member of image {image_id}")
