"""How many simulated seconds a second a cloud of 50 hosts and 200 servers takes, with every invariant checked.

That depends on how much happens: half of the steps are wishes of users, half are faults. One step each 30 s is 14 a day
for each server.
"""

import sys
import time

from figures import report

from whimbrel.sim.cloud.fixture import stage
from whimbrel.sim.faults.planned_events import Size, story_of, varied
from whimbrel.sim.runs.simulation import run
from whimbrel.sim.world.loop import new_loop

HOSTS, SERVERS, STEPS = 50, 200, 100
SEEDS = (1, 2, 3)
GAPS_S = tuple(float(word) for word in sys.argv[1:]) or (30.0, 10.0, 4.0)
GOAL = 1000.0
"""At the first of them."""


def main() -> None:
    for gap_s in GAPS_S:
        stories = [
            story_of(seed, STEPS, varied(seed, Size(hosts=HOSTS, servers=SERVERS, gap_s=gap_s))) for seed in SEEDS
        ]
        for story in stories:
            new_loop("stage").run_until_complete(stage(story.size))  # its servers are made once
        simulated_s, began = 0.0, time.process_time()
        for story in stories:
            outcome = run(story)
            assert outcome.failure is None, outcome.failure
            simulated_s += outcome.seconds
        rate = simulated_s / (time.process_time() - began)
        report("sim", gap_s=gap_s, simulated_s=simulated_s, per_processor_s=rate, goal=GOAL if gap_s == 30 else None)


main()
