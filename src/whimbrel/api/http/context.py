"""What the API's handlers are handed: the cloud, the engine, and who may do what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from whimbrel.ports.cloud import Cloud
from whimbrel.ports.services.identity import Identity

if TYPE_CHECKING:
    from whimbrel.http.policy import Policy
    from whimbrel.saga.engine import Engine

MAX_BODY_BYTES = 1 << 20


@dataclass(frozen=True)
class Context:
    cloud: Cloud
    engine: Engine
    identity: Identity
    policy: Policy
    max_body_bytes: int = MAX_BODY_BYTES
    max_limit: int = 1000  # of items that one list gives
    behind_proxy: bool = False  # believe X-Forwarded-* when links are made
    identity_url: str | None = None  # None: /identity beside this API
