"""R1 and R3 over a link between two networks: lost, repeated and reordered packets change no bit, a cut is noticed."""
import itertools
import json
import subprocess
import time

from lossy_link import LossyLink
from processes import Failure, Run

STEPS = 24
MODELS = ["softmax", "mlp:hidden=16", "mlp:hidden=24x12,dropout=0.25"]
LINKS = {
    "50 ms, 1 % lost, 5 % twice": {"delay": 0.05, "loss": 0.01, "duplicates": 0.05},
    "5 % twice, in any order": {"delay": 0.01, "jitter": 0.01, "duplicates": 0.05},
    "200 KB/s, 3 % lost": {"delay": 0.02, "loss": 0.03, "rate": 200e3},
}
TERMS = ["--policy", "sync", "--steps", str(STEPS)]
LEAST_S, MOST_S = 1.0, 2.0  # until a cut is noticed


def weights_in_process(tool, scratch, model):
    """The checksum of what the same run trains in one process, which reads the samples of the other one."""
    report = scratch / "in_process.json"
    done = subprocess.run([tool, "train", "--quiet", "--devices", "cpu:0,cpu:0", "--optimizer", "sgd", "--model", model, "--data",
                           str(scratch / "samples.csv"), "--batch", "8", "--lr", "0.05", *TERMS, "--report", str(report)],
                          capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise Failure(f"train: {done.stderr.strip()}")
    return json.loads(report.read_text())["parameters_sha256"]


def run_over(link, tool, scratch, model, keys, terms):
    return Run(tool, scratch, 2, *terms, model=model, listen=f"{link.near.address}:0", keys=keys, near=link.near.words,
               far=link.far.words)


def same_bits(tool, scratch, model, weather, keys, seed):
    """Both workers are on the other side of the link."""
    with LossyLink(seed) as link, run_over(link, tool, scratch, model, keys, TERMS) as run:
        link.set(**LINKS[weather])
        since = time.monotonic()
        for number in range(2):
            run.start("join", run.address, *run.keys, "--number", str(number), on=run.far)
        report = run.report(120)
        took = time.monotonic() - since
        counts = link.counts()
    expected = weights_in_process(tool, scratch, model)
    found = report["parameters_sha256"]
    is_same = found == expected and report["ended"] == "completed"
    return is_same, True, (f"{model} over {weather}: {found[:8]}, in process {expected[:8]}; "
                           f"{STEPS} steps took {took:.1f} s; {counts}")


def cut_noticed(tool, scratch, ways, keys, seed):
    """The link carries nothing any more, on one way or on both."""
    with LossyLink(seed) as link, run_over(link, tool, scratch, MODELS[1], keys, ["--steps", "100000000"]) as run:
        link.set(delay=0.005)
        workers = [run.join("--number", str(number), "--rejoin", "no") for number in range(2)]
        run.wait_for_steps(20)
        since = time.monotonic()
        for way in ways:
            getattr(link, way).cut = True
        moments = [run.server.says(f"lost worker {number}", after=since)[0] - since for number in range(2)]
        moments += [worker.says("worker ", after=since)[0] - since for worker in workers]
        for worker in workers:
            worker.ends()
    what = "both ways" if len(ways) == 2 else "the way to the server" if ways == ["back"] else "the way to the workers"
    told = ", ".join(f"{moment:.2f}" for moment in moments)
    return (True, all(LEAST_S <= m <= MOST_S for m in moments),
            f"{what} cut without a word: server and workers notice after {told} s")


def rounds_of(tool, scratch, rounds, draw):
    """Models, kinds of weather and cuts in turns."""
    keys = scratch / "keys"
    subprocess.run([tool, "keys", "new", str(keys)], check=True, capture_output=True)
    token = keys / "token"
    bits = itertools.cycle(itertools.product(LINKS, MODELS))
    cuts = itertools.cycle([["out", "back"], ["back"], ["out"]])
    for number in range(rounds):
        seed = draw.randrange(1 << 32)
        if number % 4 == 3:
            yield cut_noticed(tool, scratch, next(cuts), token, seed)
        else:
            weather, model = next(bits)
            yield same_bits(tool, scratch, model, weather, token, seed)
