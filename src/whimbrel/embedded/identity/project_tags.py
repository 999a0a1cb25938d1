"""Tags of projects: words that clients attach to a project, and by which lists are narrowed."""

from collections.abc import Collection, Sequence

import msgspec

from whimbrel.domain.errors import NotFound
from whimbrel.embedded.identity.bodies import Tag, TagsBody
from whimbrel.embedded.identity.record_replies import in_path
from whimbrel.embedded.identity.request import Ask
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


def narrowed(ask: Ask, projects: Sequence[Project]) -> list[Project]:
    """Return the projects that the filters by tags leave."""
    query = ask.request.query_params

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


async def index(ask: Ask) -> Reply:
    return Reply({"tags": (await _project(ask)).tags})


async def replace_all(ask: Ask) -> Reply:
    tags = checked((await ask.body(TagsBody)).tags)
    return Reply({"tags": (await ask.store.tag_project(ask.path("project_id"), lambda _: tags)).tags})


async def clear(ask: Ask) -> Reply:
    await ask.store.tag_project(ask.path("project_id"), lambda _: [])
    return NO_CONTENT


async def check(ask: Ask) -> Reply:
    _one(ask, (await _project(ask)).tags)
    return NO_CONTENT


async def add(ask: Ask) -> Reply:
    try:
        tag = msgspec.convert(ask.path("tag"), Tag)
    except msgspec.ValidationError as error:
        raise Problem(400, f"Invalid tag: {error}") from error
    await ask.store.tag_project(ask.path("project_id"), lambda tags: checked([*tags, tag]))
    return Reply(status=201, headers={"location": f"{ask.root_url}{ask.request.path}"})


async def delete(ask: Ask) -> Reply:
    def without(tags: list[str]) -> list[str]:
        gone = _one(ask, tags)
        return [tag for tag in tags if tag != gone]

    await ask.store.tag_project(ask.path("project_id"), without)
    return NO_CONTENT


async def _project(ask: Ask) -> Project:
    return await in_path(ask, Project)


def _one(ask: Ask, tags: Collection[str]) -> str:
    """Return the tag in the path. Raises: NotFound."""
    if ask.path("tag") not in tags:
        raise NotFound(f"Could not find project tag: {ask.path('tag')}.")
    return ask.path("tag")
