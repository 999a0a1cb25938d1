"""Servers whose ports do not hold what they request."""

from typing import Any

import msgspec


class Problem(msgspec.Struct, kw_only=True):
    """port_id: None: it concerns no port that exists."""

    port_id: str | None
    sentence: str = msgspec.field(name="problem")


class ProviderClaim(msgspec.Struct, kw_only=True):
    """What is claimed of one provider."""

    provider: str
    provider_name: str | None
    resources: dict[str, int]


class ProfileChange(msgspec.Struct, kw_only=True):
    """The allocation in the profile of a port's binding, before and after healing."""

    port_id: str
    before: Any = msgspec.field(name="allocation")
    after: Any = msgspec.field(name="due")


class PortFinding(msgspec.Struct, kw_only=True):
    """obstacle: why it cannot be healed."""

    server_id: str
    server_name: str
    host: str
    problems: list[Problem]
    obstacle: str | None
    held: list[ProviderClaim]
    due: list[ProviderClaim]
    profiles: list[ProfileChange]


class Healing(PortFinding, kw_only=True):
    move_id: str


class PortHealings(msgspec.Struct):
    port_healings: list[PortFinding]


class HealingAnswer(msgspec.Struct):
    healing: Healing
