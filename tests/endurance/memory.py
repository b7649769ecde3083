"""A server's memory is bounded by its model, whatever the number of workers."""
import itertools
import time

from processes import Run

MODEL = "mlp:hidden=1024x512"  # 2.1 MB of weights
STATES = {"momentum": 1, "adam": 2}  # arrays as large as the weights that the update rule keeps
SNAPSHOTS = 3
BESIDE = 64 << 20  # bytes, for the program itself, what is on the way, and the samples of these runs: 0.1 MB
# The last are those that show a bound whatever the number of workers.
CASES = list(itertools.product(["127.0.0.1:0", "memory:"], STATES, [1, 2], [1, 2, 4, 8], ["async"])) + [
    ("127.0.0.1:0", optimizer, shards, workers, policy) for policy in ["async", "sync"]
    for optimizer, shards in [("momentum", 1), ("adam", 2)] for workers in [32, 64]]
LOOKS = 20  # of a run, each after new gradients of every worker


def pss_of(process):
    """Bytes of a process: what it shares with others counts as its part of that."""
    return bytes_of(process, "Pss")


def own_memory_of(process):
    """The same without the files that it runs from, whose part falls when another process of the tool starts."""
    return bytes_of(process, "Pss_Anon", "Pss_Shmem")


def bytes_of(process, *kinds):
    with open(f"/proc/{process.process.pid}/smaps_rollup") as file:
        return sum(int(line.split()[1]) << 10 for line in file if line.split(":")[0] in kinds)


def bound_of(weights, optimizer):
    """What the shards of a server hold together, and 64 MiB. `weights`: how many there are."""
    return 4 * weights * (1 + STATES[optimizer] + SNAPSHOTS) + BESIDE


def most_of(run, workers):
    """The most that its server takes while all workers train."""
    found = []
    for _ in range(LOOKS):
        run.wait_for_steps(run.steps() + 2 * workers, 60)
        found.append(pss_of(run.server))
        time.sleep(0.05)
    return max(found)


def rounds_of(tool, scratch, rounds, draw):
    """Each round is a case; the last sentence compares the cases that differ in their workers alone."""
    for number in range(rounds):
        listen, optimizer, shards, workers, policy = CASES[number % len(CASES)]
        with Run(tool, scratch, workers, "--steps", "100000000", "--policy", policy, "--optimizer", optimizer,
                 "--shards", str(shards), model=MODEL, listen=listen, rate="0.0001") as run:
            for _ in range(workers):
                run.start("join", run.address)
            run.wait_for_steps(10 * workers, 120)
            most = most_of(run, workers)
            run.stop()
            bound = bound_of(run.report()["weights"], optimizer)
        yield (most <= bound, True,
               f"{'shared memory' if listen == 'memory:' else 'TCP'}, {policy}, {optimizer}, {shards} shards, {workers} workers: "
               f"Pss {most / (1 << 20):.1f} MiB of {bound / (1 << 20):.1f}")
