"""The dependencies of handlers: the cloud, the engine, the identity service and the policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from whimbrel.ports.cloud import Cloud
from whimbrel.ports.services.identity import Identity

if TYPE_CHECKING:
    from whimbrel.http.policy import Policy
    from whimbrel.saga.engine import Engine


@dataclass(frozen=True)
class Context:
    cloud: Cloud
    engine: Engine
    identity: Identity
    policy: Policy
    max_limit: int = 1000  # of items in one answer
