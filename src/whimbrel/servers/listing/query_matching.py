"""Whether a record without a cell matches a query: the same conditions as in SQL for the records in cells."""

from whimbrel.domain import server_states
from whimbrel.domain.server import Server
from whimbrel.ports.stores.servers import ServerQuery


def matches(server: Server, query: ServerQuery) -> bool:
    if query.deleted:
        return False
    equal = (
        (query.project_id, server.project_id),
        (query.user_id, server.user_id),
        (query.host, server.host),
        (query.flavor_id, server.flavor.flavor_id),
        (query.image_id, server.image_id),
        (query.zone, server.zone),
        (query.key_name, server.key_name),
        (query.hostname, server.hostname),
        (query.reservation_id, server.reservation_id),
        (query.locked, server.locked_by is not None),
        (query.created_at, server.created_at),
        (query.launched_at, server.launched_at),
        (query.terminated_at, server.terminated_at),
    )
    return (
        all(wanted is None or wanted == is_ for wanted, is_ in equal) and _state(server, query) and _rest(server, query)
    )


def _state(server: Server, query: ServerQuery) -> bool:
    if query.vm_states is not None and server.vm_state not in query.vm_states:
        return False
    if query.task_states is not None and server.task_state not in query.task_states:
        return False
    return query.states is None or any(_is_in(server, *state) for state in query.states)


def _is_in(server: Server, vm_state: str, task_state: str | None, exact: bool) -> bool:
    if server.vm_state != vm_state:
        return False
    if exact:
        return server.task_state == task_state
    return server.task_state not in server_states.overriding_task_states(vm_state)


def _rest(server: Server, query: ServerQuery) -> bool:
    tags = set(server.tags)
    return (
        (query.ids is None or server.id in query.ids)
        and (query.changed_since is None or server.updated_at >= query.changed_since)
        and (query.changed_before is None or server.updated_at <= query.changed_before)
        and (query.launched_before is None or (server.launched_at or query.launched_before) < query.launched_before)
        and (query.ended_since is None or server.terminated_at is None or server.terminated_at >= query.ended_since)
        and tags >= set(query.tags)
        and (not query.tags_any or bool(tags & set(query.tags_any)))
        and (not query.not_tags or not tags >= set(query.not_tags))
        and not tags & set(query.not_tags_any)
    )
