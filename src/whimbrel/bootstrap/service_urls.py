"""The URLs of a cloud's services: those of the settings, else below the URL of its HTTP front ends."""

import msgspec

from whimbrel.embedded.identity.service_catalog import Catalog, Service
from whimbrel.settings.sections import ServicesTable


class ServiceUrls(msgspec.Struct, frozen=True, kw_only=True):
    """Each without the version of the service's API."""

    identity: str
    compute: str
    network: str
    placement: str
    image: str
    image_relay: str
    volume: str
    console: str

    @property
    def catalog(self) -> Catalog:
        """Return the catalog that tokens have."""
        return Catalog(
            services=(
                Service(type="identity", name="keystone", url=f"{self.identity}/v3"),
                Service(type="compute", name="nova", url=f"{self.compute}/v2.1"),
                Service(type="placement", name="placement", url=self.placement),
                Service(type="image", name="glance", url=self.image),
                Service(type="network", name="neutron", url=self.network),
                Service(type="block-storage", name="cinderv3", url=f"{self.volume}/v3"),
                Service(type="volumev3", name="cinderv3", url=f"{self.volume}/v3"),
            )
        )


def service_urls(services: ServicesTable, front_url: str) -> ServiceUrls:
    """Return the URLs. front_url: of the HTTP front ends, if the settings do not say it."""
    front = (services.url or front_url).rstrip("/")
    names = ServiceUrls.__struct_fields__
    return ServiceUrls(**{name: (getattr(services, name) or f"{front}/{name}").rstrip("/") for name in names})
