"""GET diagnostics and topology of a server, and trigger_crash_dump: shapes by microversion, and who may ask."""

from tests.api.front import Front, fault
from whimbrel.domain.flavor import Flavor


async def test_diagnostics_have_the_shape_of_their_version(front: Front) -> None:
    server_id = await front.boot()
    path = f"/servers/{server_id}/diagnostics"
    found = await front.get(path, who="admin")
    assert (found["state"], found["num_cpus"], found["num_disks"], found["num_nics"]) == ("running", 1, 1, 0)
    assert found["memory_details"] == {"maximum": 512, "used": 512}
    assert set(found["disk_details"][0]) == {
        *("read_bytes", "read_requests", "write_bytes", "write_requests", "errors_count")
    }
    old = await front.get(path, who="admin", minor=47)
    assert (old["memory"], old["cpu0_time"], old["vda_read"]) == (512 * 1024, 0, 0)
    fault(await front.ask("GET", path), "forbidden", 403)
    await front.act(server_id, {"os-stop": None})
    await front.settle()
    said = fault(await front.ask("GET", path, who="admin"), "conflictingRequest", 409)
    assert said == f"Cannot 'get_diagnostics' instance {server_id} while it is in power state shutdown"


async def test_a_topology_shows_the_nodes_that_were_requested(front: Front) -> None:
    plain = await front.boot()
    assert await front.get(f"/servers/{plain}/topology") == {"nodes": [], "pagesize_kb": None}
    fault(await front.ask("GET", f"/servers/{plain}/topology", minor=77), "itemNotFound", 404)
    specs = {"hw:numa_nodes": "1", "hw:mem_page_size": "2048"}
    flavor = Flavor(flavor_id="numa", name="numa", vcpus=2, memory_mib=512, root_gib=1, extra_specs=specs)
    server = await front.world.cloud.directory.entry(plain)  # a server of this flavor needs a host with nodes
    record = await front.world.cloud.cell(server.cell).servers.get(plain)
    await front.world.cloud.cell(server.cell).servers.change(record, {"flavor": flavor})
    node = {"vcpu_set": [0, 1], "memory_mb": 512, "siblings": []}
    assert await front.get(f"/servers/{plain}/topology") == {"nodes": [node], "pagesize_kb": 2048}
    [seen] = (await front.get(f"/servers/{plain}/topology", who="admin"))["nodes"]
    assert seen == {**node, "cpu_pinning": {}}


async def test_a_crash_dump_is_triggered_in_a_guest_that_runs(front: Front) -> None:
    server_id = await front.boot()
    fault(await front.act(server_id, {"trigger_crash_dump": None}, minor=16), "itemNotFound", 404)
    fault(await front.act(server_id, {"trigger_crash_dump": {}}), "badRequest", 400)
    assert (await front.act(server_id, {"trigger_crash_dump": None})).status_code == 202
    await front.settle()
    assert "NMI received" in (await front.act(server_id, {"os-getConsoleOutput": {}})).json()["output"]
    await front.act(server_id, {"os-stop": None})
    await front.settle()
    fault(await front.act(server_id, {"trigger_crash_dump": None}), "conflictingRequest", 409)
