"""R12: workers join and leave for 10 minutes, and the server grows neither in memory nor in descriptors.

With a small model, so that a few kilobytes a guest are seen, and with that of `memory`. A server of the latter keeps room
for gradients and weights, 2.1 MB each, and makes another when all are in use at once, which a busy machine decides.
"""
import os
import time

from memory import MODEL, bound_of, own_memory_of, pss_of
from processes import Failure, Run, end_now

MOST_GROWTH = {"mlp:hidden=16": 1 << 20, MODEL: 5 << 20}  # bytes, over all rounds after the first quarter
MOST_DESCRIPTORS = 2
ROUND_S = 3.0  # at least, so that 200 rounds take 10 minutes
OPTIMIZER = "momentum"


def descriptors_of(process):
    return len(os.listdir(f"/proc/{process.process.pid}/fd"))


def one_guest(run, draw):
    """Joins, and has left or was killed when this returns. Half of the guests leave."""
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
    return how


def rounds_with(model, tool, scratch, rounds, draw):
    memory, own, descriptors = [], [], []
    with Run(tool, scratch, 2, "--slots", "4", "--steps", "100000000", "--optimizer", OPTIMIZER, model=model,
             rate="0.0001") as run:
        for number in range(2):
            run.join("--number", str(number))
        begin = time.monotonic()
        for number in range(rounds):
            time.sleep(max(0.0, begin + number * ROUND_S - time.monotonic()))
            how = one_guest(run, draw)
            memory.append(pss_of(run.server))
            own.append(own_memory_of(run.server))
            descriptors.append(descriptors_of(run.server))
            off = descriptors[-1] - descriptors[0]
            yield (abs(off) <= MOST_DESCRIPTORS, True,
                   f"{model}, a guest {how}: server Pss {memory[-1] / (1 << 20):.2f} MiB, "
                   f"{own[-1] / (1 << 20):.2f} without files, {descriptors[-1]} descriptors")
        run.stop()
        report = run.report()
        if report["ended"] != "stopped":
            raise Failure("the run did not go on to its end")
    settled = own[rounds // 4:]
    third = max(1, len(settled) // 3)
    grown = min(settled[-third:]) - min(settled[:third])
    yield (grown <= MOST_GROWTH[model], True,
           f"{model}: Pss without files is flat: {grown / 1024:+.0f} KiB over {len(settled)} rounds")
    bound = bound_of(report["weights"], OPTIMIZER)
    yield (max(memory) <= bound, True,
           f"{model}: Pss is {max(memory) / (1 << 20):.1f} MiB at most, of {bound / (1 << 20):.1f}")


def rounds_of(tool, scratch, rounds, draw):
    """R12. Each model has half of the rounds."""
    for model, count in zip(MOST_GROWTH, [(rounds + 1) // 2, rounds // 2]):
        if count > 0:
            yield from rounds_with(model, tool, scratch, count, draw)
