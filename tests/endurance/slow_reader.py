"""R7: a worker behind a link that carries 100 KB/s. The others keep their pace, and the server does not grow."""
import subprocess
import time

from lossy_link import LossyLink
from memory import pss_of
from processes import Run, end_now, percentile
from strangers import pace

RATE = 100e3  # bytes a second, to the worker and from it
MODEL = "mlp:hidden=256x256"  # 270 KB of weights, so a pull takes 2.7 s
WINDOW_S = 5.0
MOST_GROWTH = 16 << 20
LEAST_PACE = 0.95


def rounds_of(tool, scratch, rounds, draw):
    """The pace of two workers with a third one behind the link, and without it."""
    keys = scratch / "keys"
    subprocess.run([tool, "keys", "new", str(keys)], check=True, capture_output=True)
    paces = []
    with LossyLink(draw.randrange(1 << 32)) as link, \
            Run(tool, scratch, 2, "--slots", "3", "--steps", "100000000", model=MODEL, keys=keys / "token",
                listen=f"{link.near.address}:0", near=link.near.words, far=link.far.words) as run:
        for number in range(2):
            run.start("join", run.address, *run.keys, "--number", str(number), on=link.near.words)
        run.wait_for_steps(200)
        link.set(rate=RATE, delay=0.005)
        begin = pss_of(run.server)
        for _ in range(rounds):
            since = time.monotonic()
            before = pace(run, WINDOW_S)
            slow = run.join("--number", "2", "--rejoin", "no")
            beside = pace(run, WINDOW_S)
            grown = pss_of(run.server) - begin
            lost = run.server.said("lost worker", since)
            end_now(slow)
            if not lost:
                run.server.says("worker 2 has left", after=since)
            time.sleep(0.3)  # until the metrics have a line without it
            paces.append(beside / ((before + pace(run, WINDOW_S)) / 2))
            yield (not lost and grown <= MOST_GROWTH, True,
                   f"the others at {100 * paces[-1]:.0f} %, server {grown / 1024:+.0f} KiB"
                   f"{', ' + lost[1] if lost else ''}")
        run.stop()
        run.report(60)
    median = percentile(paces, 0.5)
    yield True, median >= LEAST_PACE, f"the others keep 95 %: median {100 * median:.0f} %"
