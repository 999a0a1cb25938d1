"""Allocations: of a consumer, of a provider, and several consumers' in one write."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from whimbrel.domain.errors import NotFound
from whimbrel.domain.ids import ConsumerId, ProjectId, ProviderId, UserId
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.http.schema import is_uuid
from whimbrel.placement.errors import UnknownName
from whimbrel.placement.provider import ANY_GENERATION, Claim, Held
from whimbrel.placement_api.call import Call
from whimbrel.placement_api.problems import introducing
from whimbrel.ports.placement.placement import Owner

# The owner of an allocation that an old client wrote without one.
NOBODY = "00000000-0000-0000-0000-000000000000"
UNKNOWN_TYPE = "unknown"


def _consumer(call: Call) -> ConsumerId:
    text = call.params["consumer"]
    if not is_uuid(text):
        raise Problem(400, f"Malformed consumer_uuid: {text[:100]}")
    return ConsumerId(str(UUID(text)))


async def show(call: Call) -> Any:
    found = await call.store.claim_of(ConsumerId(call.params["consumer"]))
    if found is None:
        return {"allocations": {}}
    consumer, held = found
    generations = await call.store.generations(held)
    view: dict[str, Any] = {
        "allocations": {
            provider: {"resources": resources, "generation": generations[provider]}
            for provider, resources in held.items()
            if provider in generations
        }
    }
    if call.minor >= 12:
        view |= {"project_id": consumer.owner.project, "user_id": consumer.owner.user}
    if call.minor >= 28:
        view["consumer_generation"] = consumer.generation
    if call.minor >= 38:
        view["consumer_type"] = consumer.type or UNKNOWN_TYPE
    return view


async def of_provider(call: Call) -> Any:
    provider, found = await call.store.claims_on(call.uuid)
    views: dict[str, Any] = {}
    for consumer, resources in found:
        views[consumer.id] = {"resources": resources}
        if call.minor >= 28:
            views[consumer.id]["consumer_generation"] = consumer.generation
    return {"allocations": views, "resource_provider_generation": provider.generation}


async def put(call: Call) -> Reply:
    consumer = _consumer(call)
    with introducing(f"Unable to allocate inventory for consumer {consumer}: ", UnknownName):
        await call.store.rewrite([_claim(call, consumer, call.body)])
    return NO_CONTENT


async def post(call: Call) -> Reply:
    with introducing("Unable to allocate inventory ", UnknownName):
        await call.store.rewrite(claims(call, call.body))
    return NO_CONTENT


async def delete(call: Call) -> Reply:
    consumer = ConsumerId(call.params["consumer"])
    if not await call.store.drop(consumer):
        raise NotFound(f"No allocations for consumer '{consumer}'.")
    return NO_CONTENT


def claims(call: Call, sent: Mapping[str, Any]) -> list[Claim]:
    """Parse several consumers' claims."""
    return [_claim(call, ConsumerId(uuid), each) for uuid, each in sent.items()]


def _claim(call: Call, consumer: ConsumerId, sent: Mapping[str, Any]) -> Claim:
    return Claim(
        consumer=consumer,
        owner=Owner(ProjectId(sent.get("project_id", NOBODY)), UserId(sent.get("user_id", NOBODY))),
        held=_held(sent["allocations"]),
        generation=sent["consumer_generation"] if call.minor >= 28 else ANY_GENERATION,
        type=sent.get("consumer_type"),
        bumps_left=True,
    )


def _held(sent: Any) -> Held:
    """Parse both forms: a list below 1.12, an object by provider from there on."""
    if isinstance(sent, list):
        return {ProviderId(part["resource_provider"]["uuid"]): part["resources"] for part in sent}
    return {ProviderId(uuid): part["resources"] for uuid, part in sent.items()}
