"""Availability zones, with their ids."""

import msgspec


class Zone(msgspec.Struct, kw_only=True):
    id: str
    name: str
    is_default: bool
    hosts: list[str]
    created_at: float = 0.0


class Zones(msgspec.Struct):
    zones: list[Zone]


class ZoneAnswer(msgspec.Struct):
    zone: Zone
