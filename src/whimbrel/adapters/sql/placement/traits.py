"""Traits of providers in a database, in the caller's transaction.

Law: a trait is either offered by the host itself, as its settings say, or set by somebody else. The host takes away
what it offered; who replaces all traits of a provider does not make those his that were there.
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
    """Make these the traits of a locked provider; False: they were. What it offers and keeps is still its own.

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
    """Have a locked provider offer these, and no more those that it offered before; False: it was so.

    It is known of them that they are standard, or may be made.
    """
    had = await _read_traits(tx, uuid)
    given, taken = set(traits) - had.keys(), {trait for trait, offered in had.items() if offered} - set(traits)
    await TRAITS.ensure(tx, given)
    await _change_traits(tx, uuid, taken=taken, given=given, offered=True)
    return bool(given or taken)


async def _read_traits(tx: Tx, uuid: ProviderId) -> dict[str, bool]:
    """Give the traits of a provider, and whether it offers each itself."""
    return dict(map(tuple, await tx.rows(_TRAITS, {"this": uuid})))


async def _change_traits(tx: Tx, uuid: ProviderId, *, taken: Set[str], given: Set[str], offered: bool) -> None:
    if taken:
        await tx.run(_DELETE_TRAIT, [{"this": uuid, "named": trait} for trait in sorted(taken)])
    if given:
        rows = [{"provider": uuid, "trait": trait, "offered": offered} for trait in sorted(given)]
        await tx.run(_ADD_TRAIT, rows)


async def switch_trait(tx: Tx, uuid: ProviderId, trait: str, wanted: bool) -> bool:
    """Set or remove one trait of a locked provider; False: it was so."""
    if bool(await tx.value(_HAS_TRAIT, {"this": uuid, "named": trait})) == wanted:
        return False
    if wanted:
        await refer_traits(tx, [trait])
        await tx.run(_ADD_TRAIT, {"provider": uuid, "trait": trait})
    else:
        await tx.run(_DELETE_TRAIT, {"this": uuid, "named": trait})
    return True
