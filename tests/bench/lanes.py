# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""How well a schedule would fill as many devices as it has PEs: lanes.py FOLDER N_PES.

The tasks of a trace take the time that they took. Each PE does its own one after the other, in the order of their
submission, as soon as the tasks that they depend on are done. Sending costs nothing. Prints: seconds of all tasks,
seconds of the schedule, and the first over N_PES times the second.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
from starling_gnn import _trace  # noqa: E402


def main(folder, n_pes):
    ends, free, busy = {}, [0.0] * n_pes, 0.0
    for job, task in _trace.read(folder).tasks.items():  # tasks come after those that they depend on
        ends[job] = max((ends.get(dep, 0.0) for dep in task.deps), default=0.0)
        if task.worker and task.step is not None and task.pe < n_pes:
            ends[job] = free[task.pe] = max(ends[job], free[task.pe]) + task.end - task.start
            busy += task.end - task.start
    makespan = max(ends.values())
    print(f"{busy:.4f} {makespan:.4f} {busy / (n_pes * makespan):.3f}")


main(sys.argv[1], int(sys.argv[2]))
