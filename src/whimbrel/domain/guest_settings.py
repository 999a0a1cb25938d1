"""The operator's settings for the metadata of guests."""

from typing import Any, Literal

import msgspec


class GuestRules(msgspec.Struct, frozen=True, kw_only=True):
    """From the table [guests]; Nova's names and defaults."""

    dhcp_domain: str = "novalocal"  # appended to hostnames; "": nothing
    vendor_data: dict[str, Any] = {}  # the same for all guests
    vendordata_providers: tuple[Literal["StaticJSON", "DynamicJSON"], ...] = ("StaticJSON",)
    vendordata_dynamic_targets: tuple[str, ...] = ()  # "name@url": services that are asked about each guest
    vendordata_dynamic_connect_timeout_s: float = 5.0
    vendordata_dynamic_read_timeout_s: float = 5.0
    vendordata_dynamic_failure_fatal: bool = False  # whether a guest does not start without their answers
    vendordata_dynamic_auth: bool = False  # whether requests to them have this cloud's token
    force_config_drive: bool = False  # whether every new server gets a config drive
    metadata_requests_per_s: float = 10.0  # of one guest, answered by one process; 0: no limit
    metadata_burst: int = 300  # requests of one guest at once

    @property
    def static_vendor_data(self) -> dict[str, Any] | None:
        """Return the vendor data that all guests get; None: they get none."""
        return self.vendor_data if "StaticJSON" in self.vendordata_providers else None

    @property
    def dynamic_targets(self) -> dict[str, str]:
        """Return the services to ask about a guest: name -> URL."""
        if "DynamicJSON" not in self.vendordata_providers:
            return {}
        return {name: url for name, _, url in (target.partition("@") for target in self.vendordata_dynamic_targets)}
