"""Quotas and limits, as Nova's clients see them."""

from typing import Any

import pytest

from tests.api.front import IMAGE, OTHER_PROJECT, PROJECT, USER, Front, fault

MINE = f"/os-quota-sets/{PROJECT}"


async def change(front: Front, query: str = "", minor: int = 104, **limits: Any) -> Any:
    return await front.ask("PUT", MINE + query, {"quota_set": limits}, who="admin", minor=minor)


CURRENT = {"instances", "cores", "ram", "metadata_items", "key_pairs", "server_groups", "server_group_members"}
FILES = {"injected_files", "injected_file_content_bytes", "injected_file_path_bytes"}
NETWORK = {"fixed_ips", "floating_ips", "security_groups", "security_group_rules"}


@pytest.mark.parametrize(
    ("minor", "names"), [(1, CURRENT | FILES | NETWORK), (36, CURRENT | FILES), (57, CURRENT), (104, CURRENT)]
)
async def test_what_is_shown_shrank(front: Front, minor: int, names: set[str]) -> None:
    for path in (MINE, f"{MINE}/detail", f"{MINE}/defaults"):
        shown = (await front.get(path, minor=minor))["quota_set"]
        assert shown.pop("id") == PROJECT
        assert set(shown) == names
    answer = await change(front, minor=minor, cores=5)
    assert set(answer.json()["quota_set"]) == names


async def test_a_limit_is_set_and_taken_back(front: Front) -> None:
    assert (await change(front, cores=5, ram="1000")).json()["quota_set"]["cores"] == 5
    shown = (await front.get(MINE))["quota_set"]
    assert (shown["cores"], shown["ram"], shown["instances"]) == (5, 1000, 10)
    assert (await front.ask("DELETE", MINE, who="admin")).status_code == 202
    assert (await front.get(MINE))["quota_set"]["cores"] == 20


async def test_use_is_counted(front: Front) -> None:
    await front.boot()
    detail = (await front.get(f"{MINE}/detail"))["quota_set"]
    assert detail["instances"] == {"limit": 10, "in_use": 1, "reserved": 0}
    assert (detail["cores"]["in_use"], detail["ram"]["in_use"]) == (1, 512)
    assert (await front.get(f"{MINE}/detail?user_id=nobody"))["quota_set"]["instances"]["in_use"] == 0


async def test_no_limit_below_what_is_used_unless_forced(front: Front) -> None:
    await front.boot()
    assert "greater than or equal" in fault(await change(front, ram=511), "badRequest", 400)
    assert (await change(front, ram=512)).status_code == 200
    assert (await change(front, ram=1, force=True)).status_code == 200
    assert (await change(front, ram=-1)).json()["quota_set"]["ram"] == -1


async def test_what_exceeds_the_quota_is_refused_in_novas_words(front: Front) -> None:
    server_id = await front.boot()

    async def refusal(**more: object) -> str:
        server = {"name": "s", "flavorRef": "1", "imageRef": IMAGE, "networks": "none", **more}
        return fault(await front.ask("POST", "/servers", {"server": server}), "forbidden", 403)

    await change(front, instances=1)
    words = "Quota exceeded for instances: Requested {}, but already used 1 of 1 instances"
    assert await refusal() == words.format(1)
    assert await refusal(min_count=2) == words.format(2)
    assert await refusal(min_count=2, max_count=3) == words.format("2-3")
    assert "Requested 10000, 10000, 5120000," in await refusal(min_count="10000")
    await change(front, cores=1)
    both = "Quota exceeded for cores, instances: Requested 1, 1, but already used 1, 1 of 1, 1 cores, instances"
    assert await refusal() == both
    larger = await front.act(server_id, {"resize": {"flavorRef": "2"}})
    flavor = (await front.get("/flavors/2"))["flavor"]
    words = f"Quota exceeded for cores: Requested {flavor['vcpus'] - 1}, but already used 1 of 1 cores"
    assert fault(larger, "forbidden", 403) == words
    assert (await change(front, cores=10, instances=0, force=True)).is_success
    answer = await front.act(server_id, {"resize": {"flavorRef": "2"}})
    assert answer.status_code == 202, answer.text


async def test_one_request_has_a_limit_where_the_quota_has_none(front: Front) -> None:
    await change(front, instances=-1, cores=-1, ram=-1)
    server = {"name": "s", "flavorRef": "1", "imageRef": IMAGE, "networks": "none", "max_count": 10000}
    assert "at most 9999" in fault(await front.ask("POST", "/servers", {"server": server}), "badRequest", 400)


async def test_the_quota_holds_for_the_next_server(front: Front) -> None:
    await change(front, instances=1)
    await front.boot()
    server = {"name": "two", "flavorRef": "1", "imageRef": "33333333-3333-4333-8333-333333333333", "networks": "none"}
    fault(await front.ask("POST", "/servers", {"server": server}), "forbidden", 403)
    assert len((await front.get("/servers"))["servers"]) == 1


async def test_a_user_has_at_most_what_his_project_has(front: Front) -> None:
    await change(front, cores=8)
    assert "less than or equal" in fault(await change(front, f"?user_id={USER}", cores=9), "badRequest", 400)
    fault(await change(front, f"?user_id={USER}", cores=-1), "badRequest", 400)
    assert (await change(front, f"?user_id={USER}", cores=3)).json()["quota_set"]["cores"] == 3
    assert (await front.get(f"{MINE}?user_id={USER}"))["quota_set"]["cores"] == 3
    assert (await front.get(MINE))["quota_set"]["cores"] == 8
    await front.ask("DELETE", f"{MINE}?user_id={USER}", who="admin")
    assert (await front.get(f"{MINE}?user_id={USER}"))["quota_set"]["cores"] == 8


@pytest.mark.parametrize(
    "limits",
    [
        *({"cores": limit} for limit in (-2, "-2", "many", 2**31, None)),
        *({name: 1} for name in ("colour", "injected_files", "fixed_ips")),
    ],
)
async def test_bad_limits_are_refused(front: Front, limits: dict[str, Any]) -> None:
    fault(await change(front, **limits), "badRequest", 400)


async def test_endless_names_are_refused(front: Front) -> None:
    long = "x" * 256
    body = {"quota_set": {"cores": 1}}
    fault(await front.ask("PUT", f"/os-quota-sets/{long}", body, who="admin"), "badRequest", 400)
    fault(await change(front, f"?user_id={long}", cores=1), "badRequest", 400)
    classes = {"quota_class_set": {"cores": 1}}
    fault(await front.ask("PUT", f"/os-quota-class-sets/{long}", classes, who="admin"), "badRequest", 400)


async def test_old_versions_take_old_resources(front: Front) -> None:
    assert (await change(front, minor=1, fixed_ips=5)).json()["quota_set"]["fixed_ips"] == 5
    fault(await change(front, minor=1, networks=5), "badRequest", 400)
    assert (await change(front, minor=36, injected_files=5)).json()["quota_set"]["injected_files"] == 5


class KnownProjects:
    """An identity service with the requester's project only."""

    async def has_project(self, project_id: str, token: str) -> bool:
        return project_id == PROJECT


@pytest.mark.cloud(projects=KnownProjects())
async def test_projects_that_do_not_exist_are_refused(front: Front) -> None:
    limits = {"quota_set": {"cores": 1}}
    for path in ("nope", "nope/detail", "nope/defaults"):
        said = fault(await front.ask("GET", f"/os-quota-sets/{path}", who="admin"), "badRequest", 400)
        assert said == "Project ID nope is not a valid project."
    fault(await front.ask("PUT", "/os-quota-sets/nope", limits, who="admin"), "badRequest", 400)
    assert (await front.ask("DELETE", "/os-quota-sets/nope", who="admin")).status_code == 202
    assert (await change(front, cores=1)).status_code == 200
    access = {"addTenantAccess": {"tenant": "nope"}}
    fault(await front.ask("POST", "/flavors/1/action", access, who="admin"), "badRequest", 400)


async def test_who_may(front: Front) -> None:
    fault(await front.ask("PUT", MINE, {"quota_set": {}}), "forbidden", 403)
    fault(await front.ask("DELETE", MINE), "forbidden", 403)
    fault(await front.ask("GET", f"/os-quota-sets/{OTHER_PROJECT}"), "forbidden", 403)
    fault(await front.ask("GET", f"/os-quota-sets/{OTHER_PROJECT}/detail", who="manager"), "forbidden", 403)
    assert (await front.ask("GET", f"/os-quota-sets/{OTHER_PROJECT}", who="admin")).status_code == 200
    assert (await front.ask("GET", f"/os-quota-sets/{OTHER_PROJECT}/defaults")).status_code == 200
    fault(await front.ask("GET", "/os-quota-class-sets/default"), "forbidden", 403)


async def test_the_default_class_holds_for_all(front: Front) -> None:
    body = {"quota_class_set": {"cores": 7}}
    answer = await front.ask("PUT", "/os-quota-class-sets/default", body, who="admin")
    assert answer.json()["quota_class_set"]["cores"] == 7
    assert (await front.get(MINE))["quota_set"]["cores"] == 7
    assert (await front.get(f"{MINE}/defaults"))["quota_set"]["cores"] == 7
    shown = (await front.get("/os-quota-class-sets/default", who="admin"))["quota_class_set"]
    assert (shown["id"], shown["cores"]) == ("default", 7)


@pytest.mark.parametrize(
    ("minor", "names"),
    [
        (1, (CURRENT | FILES | NETWORK) - {"server_groups", "server_group_members"}),
        (50, CURRENT | FILES),
        (57, CURRENT),
    ],
)
async def test_what_classes_show(front: Front, minor: int, names: set[str]) -> None:
    shown = (await front.get("/os-quota-class-sets/gold", who="admin", minor=minor))["quota_class_set"]
    assert set(shown) == names | {"id"}
    fault(
        await front.ask("PUT", "/os-quota-class-sets/gold", {"quota_class_set": {"x": 1}}, who="admin"),
        "badRequest",
        400,
    )


# Limits


async def test_limits_tell_what_there_is_and_what_is_used(front: Front) -> None:
    await front.boot()
    assert await front.get("/limits") == {
        "limits": {
            "rate": [],
            "absolute": {
                "maxTotalInstances": 10,
                "maxTotalCores": 20,
                "maxTotalRAMSize": 51200,
                "maxServerMeta": 128,
                "maxTotalKeypairs": 100,
                "maxServerGroups": 10,
                "maxServerGroupMembers": 10,
                "totalInstancesUsed": 1,
                "totalCoresUsed": 1,
                "totalRAMUsed": 512,
                "totalServerGroupsUsed": 0,
            },
        }
    }


@pytest.mark.parametrize(("minor", "count"), [(1, 19), (35, 19), (36, 14), (38, 14), (39, 13), (56, 13), (57, 11)])
async def test_limits_shrank(front: Front, minor: int, count: int) -> None:
    assert len((await front.get("/limits", minor=minor))["limits"]["absolute"]) == count


async def test_limits_of_other_projects_are_for_administrators(front: Front) -> None:
    await front.boot()
    used = (await front.get(f"/limits?tenant_id={OTHER_PROJECT}", who="admin"))["limits"]["absolute"]
    assert used["totalInstancesUsed"] == 0
    fault(await front.ask("GET", f"/limits?tenant_id={OTHER_PROJECT}"), "forbidden", 403)
    assert (await front.ask("GET", "/limits?reserved=1", minor=56)).status_code == 200
    fault(await front.ask("GET", "/limits?reserved=1", minor=75), "badRequest", 400)
