"""The real OpenStack services of tests: each user logs in, and each service of the catalog answers it."""

import pytest

from tests.openstack_services import real_services

VERSIONED = {"image": "/v2/images", "network": "/v2.0/networks", "block-storage": "/types", "placement": "/"}
"""Type of a service -> what every user may read below its endpoint."""


@pytest.mark.openstack
@pytest.mark.parametrize("name", ["admin", "demo", "demo-admin", "service"])
def test_each_user_reaches_each_service(name: str) -> None:
    cloud = real_services().cloud(name)
    for service, path in VERSIONED.items():
        with cloud.client(service) as client:
            url = cloud.url(service).rstrip("/")
            answer = client.get(f"{url}{path}")
            assert answer.status_code == 200, (service, answer.text)


@pytest.mark.openstack
def test_images_and_volume_types_are_there() -> None:
    cloud = real_services().cloud("demo")
    with cloud.client("image") as client:
        assert [each["name"] for each in client.get("/v2/images?name=tick").json()["images"]] == ["tick"]
    with cloud.client("network") as client:
        assert [each["name"] for each in client.get("/v2.0/networks?name=private").json()["networks"]] == ["private"]
