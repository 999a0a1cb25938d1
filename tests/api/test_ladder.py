"""A move as a ladder: each step with its undo, before the verdict, after it, and on the way back."""

from typing import Any

from tests.api.front import OTHER_PROJECT, Front, fault
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import HostName


async def resized(front: Front) -> tuple[str, str]:
    """Return a server that waits for its verdict, and its move."""
    server = await front.boot()
    assert (await front.act(server, {"resize": {"flavorRef": "2"}})).status_code == 202
    await front.settle()
    [move, *_] = (await front.get("/whimbrel/moves", who="admin"))["moves"]
    return server, move["id"]


async def ladder(front: Front, move: str, who: str = "reader") -> Any:
    return (await front.get(f"/whimbrel/moves/{move}/ladder", who=who))["ladder"]


def states(found: Any) -> dict[str, tuple[str, str]]:
    return {step["step"]: (step["do_state"], step["undo_state"]) for step in found["steps"]}


async def test_before_the_verdict_every_undo_is_ready_and_what_follows_is_ahead(front: Front) -> None:
    _, move = await resized(front)
    found = await ladder(front, move)
    shown = states(found)
    assert (found["state"], found["at"]) == ("parked", "await_verdict")
    assert shown["switch_home"] == ("done", "ready")
    assert shown["await_verdict"] == ("parked", "ready")
    assert shown["choose_target"] == ("done", "none")
    assert shown["destroy_on_source"] == ("ahead", "none")
    assert "attach_target" not in shown  # it has no volumes
    [switch] = [step for step in found["steps"] if step["step"] == "switch_home"]
    assert switch["undo"] == "switch_home_back"
    assert switch["about"] == "records the target as the server's host"
    assert switch["undo_about"] == "records the source as the server's host"
    assert switch["took_s"] is not None


async def test_after_a_confirm_nothing_is_undone_any_more(front: Front) -> None:
    server, move = await resized(front)
    await front.act(server, {"confirmResize": None})
    await front.settle()
    shown = states(await ladder(front, move))
    assert {do for do, _ in shown.values()} == {"done"}
    assert {undo for _, undo in shown.values()} == {"past", "none"}


async def test_after_a_revert_every_step_that_has_an_undo_is_undone(front: Front) -> None:
    server, move = await resized(front)
    await front.act(server, {"revertResize": None})
    await front.settle()
    found = await ladder(front, move)
    shown = states(found)
    assert (found["state"], found["turned"]) == ("undone", "reverted")
    assert shown["switch_home"] == ("undone", "done")
    assert shown["lock"] == ("undone", "done")
    assert shown["choose_target"] == ("done", "none")
    assert shown["destroy_on_source"] == ("never", "none")


async def test_the_step_that_was_refused_is_not_shown_as_done(front: Front) -> None:
    huge = Flavor(flavor_id="9", name="huge", vcpus=20, memory_mib=512, root_gib=1)
    await front.world.cloud.flavors.create(huge, 0.0)
    await front.act(await front.boot(), {"resize": {"flavorRef": "9"}})
    await front.settle()
    [move, *_] = (await front.get("/whimbrel/moves", who="admin"))["moves"]
    shown = states(await ladder(front, move["id"]))
    assert shown["choose_target"] == ("refused", "none")
    assert shown["lock"] == ("undone", "done")
    assert shown["claim_target"][0] == "never"


async def test_a_move_that_is_under_way_has_one_present_step(front: Front) -> None:
    server = await front.boot()
    await front.act(server, {"resize": {"flavorRef": "2"}})
    [move, *_] = (await front.get("/whimbrel/moves", who="admin"))["moves"]
    shown = states(await ladder(front, move["id"]))
    assert [step for step, (do, _) in shown.items() if do == "now"] == [move["at"]]
    assert shown["await_verdict"] == ("ahead", "unneeded")


async def test_both_halves_of_the_guest_are_shown_to_operators(front: Front) -> None:
    _, move = await resized(front)
    url = f"/whimbrel/moves/{move}/guests"
    source, target = (await front.get(url, who="admin"))["guests"]
    assert (source["side"], source["power"], source["disks"]) == ("source", "stopped", ["root"])
    assert (target["side"], target["power"], target["disks"]) == ("target", "running", ["root"])
    assert source["host"] != target["host"]
    front.world.disconnected.add(HostName(source["host"]))
    silent, still = (await front.get(url, who="admin"))["guests"]
    assert (silent["answers"], silent["power"], still["answers"]) == (False, None, True)
    fault(await front.ask("GET", url, who="reader"), "forbidden", 403)


async def test_a_host_that_has_nothing_of_the_guest_says_so(front: Front) -> None:
    server, move = await resized(front)
    await front.act(server, {"confirmResize": None})
    await front.settle()
    source, target = (await front.get(f"/whimbrel/moves/{move}/guests", who="admin"))["guests"]
    assert (source["answers"], source["power"], target["power"]) == (True, None, "running")


async def test_it_names_no_host_and_is_shown_to_its_project_only(front: Front) -> None:
    _, move = await resized(front)
    text = (await front.ask("GET", f"/whimbrel/moves/{move}/ladder", who="reader")).text
    assert not [host for host in ("h1", "h2", "h3") if f'"{host}"' in text]
    other = await front.ask("GET", f"/whimbrel/moves/{move}/ladder", who=f"member@{OTHER_PROJECT}")
    fault(other, "itemNotFound", 404)


async def test_the_settings_are_those_of_the_rules_and_for_operators_only(front: Front) -> None:
    shown = (await front.get("/whimbrel/settings", who="admin"))["settings"]
    assert shown["max_attempts"] == front.world.cloud.rules.max_attempts
    fault(await front.ask("GET", "/whimbrel/settings"), "forbidden", 403)


async def test_a_cold_move_is_not_forced_to_complete_and_says_how_it_ends(front: Front) -> None:
    server, move = await resized(front)
    answer = await front.ask("POST", f"/whimbrel/moves/{move}/action", {"complete": None}, who="admin")
    said = fault(answer, "badRequest", 400)
    assert "no live migration, but a resize" in said
    assert f"openstack server resize confirm {server}" in said
