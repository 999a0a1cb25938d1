"""The power of a host, as its fence device sees it."""

import msgspec


class HostPower(msgspec.Struct, kw_only=True):
    """power: "on" | "off". device: its protocol. address: where the device is."""

    host: str
    device: str
    address: str
    power: str


class HostPowerAnswer(msgspec.Struct):
    power: HostPower
