"""R12: workers join and leave for 10 minutes, and the server grows neither in memory nor in descriptors."""
import os
import time

from memory import MODEL, bound_of, pss_of
from processes import Failure, Run, end_now

MOST_GROWTH = 1 << 20  # bytes, over all rounds after the first quarter
MOST_DESCRIPTORS = 2
ROUND_S = 3.0  # at least, so that a whole proof of 200 rounds takes 10 minutes
OPTIMIZER = "momentum"


def descriptors_of(process):
    return len(os.listdir(f"/proc/{process.process.pid}/fd"))


def rounds_of(tool, scratch, rounds, draw):
    """R12. Half of the guests leave, the others are killed."""
    memory, descriptors = [], []
    with Run(tool, scratch, 2, "--seats", "4", "--steps", "100000000", "--optimizer", OPTIMIZER, model=MODEL,
             rate="0.0001") as run:
        for number in range(2):
            run.join("--number", str(number))
        begin = time.monotonic()
        for number in range(rounds):
            time.sleep(max(0.0, begin + number * ROUND_S - time.monotonic()))
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
        report = run.report()
        if report["ended"] != "stopped":
            raise Failure("the run did not go on to its end")
    settled = memory[rounds // 4:]
    third = max(1, len(settled) // 3)
    grown = min(settled[-third:]) - min(settled[:third])
    yield grown <= MOST_GROWTH, True, f"Pss is flat: {grown / 1024:+.0f} KiB over {len(settled)} rounds"
    bound = bound_of(report["weights"], OPTIMIZER)
    yield (max(memory) <= bound, True,
           f"Pss is {max(memory) / (1 << 20):.1f} MiB at most, of {bound / (1 << 20):.1f}")
