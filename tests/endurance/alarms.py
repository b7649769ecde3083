"""R4: nobody is taken for dead although all processors are busy and 8 MiB frames fill a link of 10 Mbit/s."""
import subprocess
import sys
import time

from lossy_link import LossyLink
from processes import Run

RATE = 10e6 / 8
MODEL = "mlp:hidden=512x4096"  # 8.4 MB of weights
SPINNERS = 4
ROUND_S = 30.0


def rounds_of(tool, scratch, rounds, draw):
    """Each round looks for half a minute; a whole proof for ten minutes."""
    keys = scratch / "keys"
    subprocess.run([tool, "keys", "new", str(keys)], check=True, capture_output=True)
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(SPINNERS)]
    try:
        with LossyLink(draw.randrange(1 << 32)) as link, \
                Run(tool, scratch, 2, "--steps", "100000000", model=MODEL, keys=keys / "token",
                    listen=f"{link.near.address}:0", near=link.near.words, far=link.far.words) as run:
            link.set(rate=RATE, delay=0.005)
            workers = [run.start("join", run.address, *run.keys, "--number", str(number), on=run.far)
                       for number in range(2)]
            for number in range(2):
                run.server.says(f"worker {number} has joined")
            for _ in range(rounds):
                since, before = time.monotonic(), link.out.carried + link.back.carried
                time.sleep(ROUND_S)
                alarm = run.server.said("lost worker", since)
                alive = all(process.process.poll() is None for process in (run.server, *workers))
                yield (not alarm and alive, True,
                       f"{link.out.carried + link.back.carried - before} packets and {run.steps()} steps so far, "
                       f"{alarm[1] if alarm else 'no false alarm'}")
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()
