"""Traits of providers in a database, in the caller's transaction.

Invariant: a trait is either offered by the host itself, according to its settings, or set by an operator. The host
removes only what it offered; replacing all traits of a provider does not change the origin of those it already had.
"""

from collections.abc import Collection, Set

import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.placement.resource_names import TRAITS, refer_traits
from whimbrel.adapters.sql.tables.placement import provider_traits
from whimbrel.domain.ids import ProviderId

_THIS = bindparam("this", type_=sa.String)
_HAS_TRAIT = sa.select(
    sa.exists().where(provider_traits.c.provider == _THIS, provider_traits.c.trait == bindparam("named"))
)
_ADD_TRAIT = sa.insert(provider_traits)
_DELETE_TRAIT = sa.delete(provider_traits).where(
    provider_traits.c.provider == _THIS, provider_traits.c.trait == bindparam("named")
)
_OFFERED = sa.select(provider_traits.c.provider, provider_traits.c.trait).where(provider_traits.c.offered)
_TRAITS = sa.select(provider_traits.c.trait, provider_traits.c.offered).where(provider_traits.c.provider == _THIS)


async def write_traits(tx: Tx, uuid: ProviderId, traits: Collection[str]) -> bool:
    """Replace the traits of a locked provider; False: no change. Traits that it offers and keeps stay offered.

    Raises: UnknownName.
    """
    await refer_traits(tx, traits)
    had = await _read_traits(tx, uuid)
    taken, given = had.keys() - set(traits), set(traits) - had.keys()
    await _change_traits(tx, uuid, taken=taken, given=given, offered=False)
    return bool(taken or given)


async def all_offered(tx: Tx) -> dict[ProviderId, frozenset[str]]:
    """Return the traits that providers offer themselves, by provider."""
    found: dict[ProviderId, set[str]] = {}
    for provider, trait in await tx.rows(_OFFERED):
        found.setdefault(provider, set()).add(trait)
    return {provider: frozenset(traits) for provider, traits in found.items()}


async def offer_traits(tx: Tx, uuid: ProviderId, traits: Collection[str]) -> bool:
    """Replace the traits that a locked provider itself offers; False: no change.

    The names must be known to be valid.
    """
    had = await _read_traits(tx, uuid)
    given, taken = set(traits) - had.keys(), {trait for trait, offered in had.items() if offered} - set(traits)
    await TRAITS.ensure(tx, given)
    await _change_traits(tx, uuid, taken=taken, given=given, offered=True)
    return bool(given or taken)


async def _read_traits(tx: Tx, uuid: ProviderId) -> dict[str, bool]:
    """Return trait -> whether the provider itself offers it."""
    return dict(map(tuple, await tx.rows(_TRAITS, {"this": uuid})))


async def _change_traits(tx: Tx, uuid: ProviderId, *, taken: Set[str], given: Set[str], offered: bool) -> None:
    if taken:
        await tx.run(_DELETE_TRAIT, [{"this": uuid, "named": trait} for trait in sorted(taken)])
    if given:
        rows = [{"provider": uuid, "trait": trait, "offered": offered} for trait in sorted(given)]
        await tx.run(_ADD_TRAIT, rows)


async def switch_trait(tx: Tx, uuid: ProviderId, trait: str, wanted: bool) -> bool:
    """Set or remove one trait of a locked provider; False: no change."""
    if bool(await tx.value(_HAS_TRAIT, {"this": uuid, "named": trait})) == wanted:
        return False
    if wanted:
        await refer_traits(tx, [trait])
        await tx.run(_ADD_TRAIT, {"provider": uuid, "trait": trait})
    else:
        await tx.run(_DELETE_TRAIT, {"this": uuid, "named": trait})
    return True
