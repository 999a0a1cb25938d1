"""What all processes of a cloud agree on: its id, its rules, and the secret of image grants.

Invariants: a process works with the databases of its own cloud only. All processes have the rules that are stored; the
process that migrates the databases writes them, and others are refused if their own file contradicts.
"""

import secrets
from typing import Any

import msgspec

from whimbrel.adapters.sql.global_.cloud_identity import SqlCloudIdentity
from whimbrel.adapters.sql.key_value_store import SqlKeyValueStore
from whimbrel.domain.errors import Refused
from whimbrel.ports.clock import IdSource
from whimbrel.ports.cloud import Rules
from whimbrel.settings import CloudConfig
from whimbrel.settings.datadir import DataDir

SPACE = "cloud"
RULES = "rules"
GRANT_SECRET = "image_grant_secret"


async def check_cloud(
    identity: SqlCloudIdentity, config: CloudConfig, data: DataDir | None, ids: IdSource, now: float
) -> str:
    """Return the id of the cloud; a new database gets it. data: remembers it.

    Raises: Refused: the database belongs to another cloud than the settings or the data directory.
    """
    remembered = data.cloud_id() if data else None
    here = config.cloud.id or remembered
    stored = await identity.ensure(here or ids.uuid(), now)
    if config.cloud.id not in (None, stored):
        raise Refused(
            f"this database belongs to the cloud {stored}, and [cloud] of the settings says {config.cloud.id}: name the"
            " database of that cloud"
        )
    if data and remembered not in (None, stored):
        raise Refused(
            f"this database belongs to the cloud {stored}, and {data.path} to the cloud {remembered}: name the database"
            " of that cloud, or give this one another --data-dir"
        )
    if data and remembered is None:
        data.remember_cloud(stored)
    return stored


async def write_rules(store: SqlKeyValueStore, rules: Rules) -> None:
    """Make these the rules of all processes that start from now on."""
    said = msgspec.json.encode(rules, order="deterministic")
    if await store.get(SPACE, RULES) != said:
        await store.put(SPACE, RULES, said)


async def agreed_rules(store: SqlKeyValueStore, config: CloudConfig) -> Rules:
    """Return the rules of the cloud. Raises: Refused: the settings file of this process sets another one."""
    said = await store.get(SPACE, RULES)
    if said is None:
        return config.rules
    rules = msgspec.json.decode(said, type=Rules)
    for name in sorted(config.rules_in_file):
        own, agreed = getattr(config.rules, name), getattr(rules, name)
        if own != agreed:
            raise Refused(
                f"[rules]: '{name}' is {_shown(own)} in the settings of this process and {_shown(agreed)} in the cloud:"
                " remove [rules] from this file, or make its rules those of the cloud with `whimbrel db upgrade"
                " --settings FILE`, then start the other processes again"
            )
    return rules


def _shown(value: Any) -> str:
    return msgspec.json.encode(value).decode()


async def grant_secret(store: SqlKeyValueStore) -> bytes:
    """Return the secret of image grants, created on first use."""
    await store.replace(SPACE, GRANT_SECRET, None, secrets.token_bytes(32))
    secret = await store.get(SPACE, GRANT_SECRET)
    assert secret is not None, "just set"
    return secret
