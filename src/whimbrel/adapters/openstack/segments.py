"""The segments of a network's subnets, from Neutron."""

import msgspec


class _Subnet(msgspec.Struct):
    id: str
    segment_id: str | None = None  # None also if the service has no segments


class _Subnets(msgspec.Struct):
    subnets: tuple[_Subnet, ...]


def segments(answer: bytes) -> dict[str, str]:
    shown = msgspec.json.decode(answer, type=_Subnets).subnets
    return {subnet.id: subnet.segment_id for subnet in shown if subnet.segment_id}
