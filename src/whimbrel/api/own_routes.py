"""Whimbrel's own lines of the table of routes: moves, decisions, zones with their ids, cells, hosts, healing.

The head of routes.py describes how a resource is added.
"""

from whimbrel.api.hosts import zones
from whimbrel.api.http.call import Route
from whimbrel.api.operator import (
    cells,
    group_moves,
    histories,
    host_evacuations,
    host_power,
    hosts,
    maintenances,
    moves,
    plans,
    port_healings,
    proof,
    repairs,
    restores,
    server_moves,
    statuses,
    stored_processes,
)
from whimbrel.api.policy_target import server_in_path
from whimbrel.api.schemas import cells as cell_bodies
from whimbrel.api.schemas import history
from whimbrel.api.schemas import hosts as host_bodies
from whimbrel.api.schemas import maintenances as maintenance_bodies
from whimbrel.api.schemas import plans as plan_bodies
from whimbrel.api.schemas import port_healings as healing_bodies
from whimbrel.api.schemas import proof as proof_query
from whimbrel.api.schemas import repairs as repair_bodies
from whimbrel.api.schemas import restores as restore_bodies
from whimbrel.api.schemas import server_groups as group_bodies
from whimbrel.api.schemas import zones as zone_bodies
from whimbrel.http.routes import OPEN

# fmt: off
OWN_ROUTES: tuple[Route, ...] = (
    Route("GET", "/whimbrel/moves", moves.index, "whimbrel:moves:index", query=history.MOVES),
    Route("GET", "/whimbrel/moves/{move_id}", moves.show, "whimbrel:moves:show"),
    Route("GET", "/whimbrel/moves/{move_id}/ladder", moves.show_ladder, "whimbrel:moves:ladder",
          target=moves.project_of_run),
    Route("GET", "/whimbrel/moves/{move_id}/guests", moves.guests, "whimbrel:moves:show"),
    Route("GET", "/whimbrel/moves/{move_id}/export", moves.export, "whimbrel:moves:export"),
    Route("GET", "/whimbrel/moves/{move_id}/decisions", moves.decisions, "whimbrel:moves:decisions",
          target=moves.project_of_run),
    Route("POST", "/whimbrel/moves/{move_id}/action", moves.retry, "whimbrel:moves:retry", ok=202,
          action="retry", body=history.RETRY),
    Route("POST", "/whimbrel/moves/{move_id}/action", moves.turn_back, "whimbrel:moves:turn_back", ok=202,
          action="turn_back", body=history.TURN_BACK),
    Route("POST", "/whimbrel/moves/{move_id}/action", moves.give_up_source, "whimbrel:moves:give_up_source", ok=202,
          action="give_up_source", body=history.GIVE_UP_SOURCE),
    Route("POST", "/whimbrel/moves/{move_id}/action", moves.complete, "whimbrel:moves:complete", ok=202,
          action="complete", body=history.COMPLETE),
    Route("POST", "/whimbrel/plans", plans.create, "whimbrel:plans:create", body=plan_bodies.CREATE,
          target=plans.server_in_body),
    Route("POST", "/whimbrel/servers/{server_id}/move", server_moves.create, "whimbrel:servers:move", ok=202,
          body=zone_bodies.MOVE, target=server_in_path),
    Route("GET", "/whimbrel/servers/{server_id}/history", histories.show, "whimbrel:servers:history",
          query=history.SERVER, target=histories.server_or_its_past),
    Route("GET", "/whimbrel/zones", zones.own_index, "whimbrel:zones:index"),
    Route("PUT", "/whimbrel/zones/{zone_id}", zones.rename, "whimbrel:zones:rename", body=zone_bodies.RENAME),
    Route("DELETE", "/whimbrel/zones/{zone_id}", zones.delete, "whimbrel:zones:delete", ok=204),
    Route("GET", "/whimbrel/cells", cells.index, "whimbrel:cells:index"),
    Route("POST", "/whimbrel/cells", cells.add, "whimbrel:cells:add", ok=201, body=cell_bodies.ADD),
    Route("PUT", "/whimbrel/cells/{name}", cells.switch, "whimbrel:cells:switch", body=cell_bodies.SWITCH),
    Route("DELETE", "/whimbrel/cells/{name}", cells.remove, "whimbrel:cells:remove", ok=204),
    Route("GET", "/whimbrel/hosts", hosts.index, "whimbrel:hosts:index"),
    Route("POST", "/whimbrel/hosts", hosts.invite, "whimbrel:hosts:invite", ok=201, body=host_bodies.INVITE),
    Route("GET", "/whimbrel/hosts/{host}", hosts.show, "whimbrel:hosts:show"),
    Route("PUT", "/whimbrel/hosts/{host}", hosts.switch, "whimbrel:hosts:switch", body=host_bodies.SWITCH),
    Route("PUT", "/whimbrel/hosts/{host}/force-down", hosts.force_down, "whimbrel:hosts:force_down",
          body=host_bodies.FORCE_DOWN),
    Route("POST", "/whimbrel/hosts/{host}/evacuation", host_evacuations.go_on, "whimbrel:hosts:evacuate", ok=202,
          body=host_bodies.EVACUATE),
    Route("DELETE", "/whimbrel/hosts/{host}", hosts.retire, "whimbrel:hosts:retire", ok=204),
    Route("POST", "/whimbrel/hosts/{host}/forget", hosts.forget, "whimbrel:hosts:forget", body=host_bodies.FORGET),
    Route("GET", "/whimbrel/hosts/{host}/power", host_power.show, "whimbrel:hosts:power"),
    Route("PUT", "/whimbrel/hosts/{host}/power", host_power.cut, "whimbrel:hosts:cut_power", body=host_bodies.POWER),
    Route("GET", "/whimbrel/maintenances", maintenances.index, "whimbrel:maintenances:index"),
    Route("POST", "/whimbrel/maintenances", maintenances.plan, "whimbrel:maintenances:plan", ok=201,
          body=maintenance_bodies.PLAN),
    Route("GET", "/whimbrel/maintenances/{maintenance_id}", maintenances.show, "whimbrel:maintenances:show"),
    Route("GET", "/whimbrel/maintenances/{maintenance_id}/snapshot", maintenances.snapshot,
          "whimbrel:maintenances:snapshot"),
    Route("POST", "/whimbrel/maintenances/{maintenance_id}/action", maintenances.start, "whimbrel:maintenances:start",
          ok=202, action="start", body=maintenance_bodies.START),
    Route("POST", "/whimbrel/maintenances/{maintenance_id}/action", maintenances.pause, "whimbrel:maintenances:pause",
          ok=202, action="pause", body=maintenance_bodies.PAUSE),
    Route("POST", "/whimbrel/maintenances/{maintenance_id}/action", maintenances.resume,
          "whimbrel:maintenances:resume", ok=202, action="resume", body=maintenance_bodies.RESUME),
    Route("POST", "/whimbrel/maintenances/{maintenance_id}/action", maintenances.abort, "whimbrel:maintenances:abort",
          ok=202, action="abort", body=maintenance_bodies.ABORT),
    Route("GET", "/whimbrel/trust", hosts.trust, OPEN),
    Route("POST", "/whimbrel/joins", hosts.join, OPEN, ok=201, body=host_bodies.JOIN),
    Route("GET", "/whimbrel/port-healings", port_healings.index, "whimbrel:port_healings:index",
          query=healing_bodies.LIST),
    Route("POST", "/whimbrel/port-healings", port_healings.create, "whimbrel:port_healings:create", ok=202,
          body=healing_bodies.CREATE),
    Route("GET", "/whimbrel/status", statuses.show, "whimbrel:status:show"),
    Route("GET", "/whimbrel/processes", stored_processes.index, "whimbrel:processes:index"),
    Route("GET", "/whimbrel/settings", statuses.show_settings, "whimbrel:settings:show"),
    Route("GET", "/whimbrel/proof", proof.show, "whimbrel:proof:show", query=proof_query.SHOW),
    Route("GET", "/whimbrel/repairs", repairs.index, "whimbrel:repairs:index"),
    Route("POST", "/whimbrel/repairs", repairs.create, "whimbrel:repairs:create", ok=202, body=repair_bodies.CREATE),
    Route("GET", "/whimbrel/restore", restores.show, "whimbrel:restore:show"),
    Route("POST", "/whimbrel/restore", restores.begin, "whimbrel:restore:begin", action="begin",
          body=restore_bodies.BEGIN),
    Route("POST", "/whimbrel/restore", restores.end, "whimbrel:restore:end", action="end", body=restore_bodies.END),
    Route("GET", "/whimbrel/server-groups/{group_id}", group_moves.show, "whimbrel:server_groups:show"),
    Route("POST", "/whimbrel/server-groups/{group_id}/move", group_moves.move, "whimbrel:server_groups:move", ok=202,
          body=group_bodies.MOVE),
)
# fmt: on
