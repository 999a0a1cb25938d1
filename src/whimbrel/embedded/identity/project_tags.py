"""Tags of projects: words that clients attach to a project, and by which lists are narrowed."""

from collections.abc import Collection, Sequence

import msgspec

from whimbrel.domain.errors import NotFound
from whimbrel.embedded.identity.bodies import Tag, TagsBody
from whimbrel.embedded.identity.record_replies import in_path
from whimbrel.embedded.identity.request import Call
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.services.identity import Project

MOST = 80


def checked(tags: Collection[str]) -> list[str]:
    """Return the tags of a project in order. Raises: Problem: there are too many."""
    found = sorted(set(tags))
    if len(found) > MOST:
        raise Problem(400, f"A project has at most {MOST} tags.")
    return found


def narrowed(call: Call, projects: Sequence[Project]) -> list[Project]:
    """Return the projects that the filters by tags leave."""
    query = call.request.query_params

    def given(name: str) -> set[str]:
        return set(filter(None, query.get(name, "").split(",")))

    all_of, any_of, not_all, not_any = (given(name) for name in ("tags", "tags-any", "not-tags", "not-tags-any"))
    return [
        each
        for each in projects
        if all_of <= set(each.tags)
        and (not any_of or any_of & set(each.tags))
        and not (not_all and not_all <= set(each.tags))
        and not not_any & set(each.tags)
    ]


async def index(call: Call) -> Reply:
    return Reply({"tags": (await _project(call)).tags})


async def replace_all(call: Call) -> Reply:
    tags = checked((await call.body(TagsBody)).tags)
    return Reply({"tags": (await call.store.tag_project(call.path("project_id"), lambda _: tags)).tags})


async def clear(call: Call) -> Reply:
    await call.store.tag_project(call.path("project_id"), lambda _: [])
    return NO_CONTENT


async def check(call: Call) -> Reply:
    _one(call, (await _project(call)).tags)
    return NO_CONTENT


async def add(call: Call) -> Reply:
    try:
        tag = msgspec.convert(call.path("tag"), Tag)
    except msgspec.ValidationError as error:
        raise Problem(400, f"Invalid tag: {error}") from error
    await call.store.tag_project(call.path("project_id"), lambda tags: checked([*tags, tag]))
    return Reply(status=201, headers={"location": f"{call.root_url}{call.request.path}"})


async def delete(call: Call) -> Reply:
    def without(tags: list[str]) -> list[str]:
        gone = _one(call, tags)
        return [tag for tag in tags if tag != gone]

    await call.store.tag_project(call.path("project_id"), without)
    return NO_CONTENT


async def _project(call: Call) -> Project:
    return await in_path(call, Project)


def _one(call: Call, tags: Collection[str]) -> str:
    """Return the tag in the path. Raises: NotFound."""
    if call.path("tag") not in tags:
        raise NotFound(f"Could not find project tag: {call.path('tag')}.")
    return call.path("tag")
