"""The clients of the operator's services of dynamic vendor data."""

import ssl
from contextlib import AsyncExitStack

import httpx

from whimbrel.adapters.openstack.session import Token
from whimbrel.domain.errors import Invalid
from whimbrel.ports.services.vendor_data import NoVendorData, VendorData
from whimbrel.settings import CloudConfig


async def vendor_data_of(config: CloudConfig, token: Token, closing: AsyncExitStack) -> VendorData:
    """token: of this process. closing: closes the connections. Raises: Invalid: a file has no certificates."""
    rules = config.rules.guests
    targets = rules.dynamic_targets
    if not targets:
        return NoVendorData()
    from whimbrel.adapters.openstack.dynamic_vendor_data import HttpVendorData

    is_encrypted = any(url.startswith("https:") for url in targets.values())
    client = httpx.AsyncClient(verify=_trusted(config) if is_encrypted else False)
    await closing.enter_async_context(client)
    return HttpVendorData(rules, client, token if rules.vendordata_dynamic_auth else None)


def _trusted(config: CloudConfig) -> ssl.SSLContext:
    file = config.guests.vendordata_dynamic_ca_file
    try:
        return ssl.create_default_context(cafile=file)
    except OSError as error:
        raise Invalid(
            f"[guests]: 'vendordata_dynamic_ca_file' is {file}, which cannot be used: {error.strerror or error}; name a"
            " file with certificates in PEM"
        ) from None
