"""R12: workers join and leave every few seconds, and the server grows neither in memory nor in descriptors."""
import os
import time

from processes import Failure, Run, end_now
from strangers import pss_of

MOST_GROWTH = 1 << 20  # bytes, over all rounds after the first quarter
MOST_DESCRIPTORS = 2


def descriptors_of(process):
    return len(os.listdir(f"/proc/{process.process.pid}/fd"))


def rounds_of(tool, scratch, rounds, draw):
    """R12. Half of the guests leave, the others are killed."""
    memory, descriptors = [], []
    with Run(tool, scratch, 2, "--seats", "4", "--steps", "100000000") as run:
        for number in range(2):
            run.join("--number", str(number))
        for number in range(rounds):
            guest = run.join("--number", "2")
            run.wait_for_steps(run.steps() + 50)
            time.sleep(draw.uniform(0.2, 1))
            since = time.monotonic()
            if draw.random() < 0.5:
                end_now(guest)
                how = "left"
                run.server.says("worker 2 has left", after=since)
            else:
                guest.kill()
                how = "was killed"
                run.server.says("lost worker 2", after=since)
            run.wait_for_steps(run.steps() + 50)
            memory.append(pss_of(run.server))
            descriptors.append(descriptors_of(run.server))
            off = descriptors[-1] - descriptors[0]
            yield (abs(off) <= MOST_DESCRIPTORS, True,
                   f"a guest {how}: server Pss {memory[-1] / (1 << 20):.2f} MiB, {descriptors[-1]} descriptors")
        run.stop()
        if run.report()["ended"] != "stopped":
            raise Failure("the run did not go on to its end")
    settled = memory[rounds // 4:]
    third = max(1, len(settled) // 3)
    grown = min(settled[-third:]) - min(settled[:third])
    yield grown <= MOST_GROWTH, True, f"Pss is flat: {grown / 1024:+.0f} KiB over {len(settled)} rounds"
