"""Programs in turns, or two at once in slices of one processor."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

NAME = pathlib.Path(sys.argv[0]).name  # who complains
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def environment():
    """One thread, and of OpenBLAS what that finds best for this processor, whatever the shell asks of it."""
    return {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")} | ONE_THREAD


def run(*command):
    done = subprocess.run([str(word) for word in command], env=environment(), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"{NAME}: '{' '.join(map(str, command))}' failed with {done.returncode}: {done.stderr.strip()[-400:]}")
    return done.stdout


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def stretch(path, began, ended):
    """Steps per second of its processor time that a peer noted between two times of day."""
    lines = [[float(word) for word in line.split()] for line in path.read_text(encoding="ascii").splitlines()]
    inside = [(cpu, steps) for now, cpu, steps in lines if began <= now <= ended]
    if len(inside) < 2:
        sys.exit(f"{NAME}: the peer noted nothing while ours ran: use longer --seconds")
    (cpu, steps), (last_cpu, last_steps) = inside[0], inside[-1]
    return (last_steps - steps) / (last_cpu - cpu)


def beside(peer, ours, pairs):
    """Both at once on one processor, which the kernel deals out in slices of a tenth of a second: what slows a host
    for seconds then slows both alike. Rates are those of a second of processor time.
    """
    slices = ["taskset", "-c", str(max(os.sched_getaffinity(0))), "chrt", "--rr", "1"]
    rates = []
    with tempfile.TemporaryDirectory() as folder:
        progress = pathlib.Path(folder) / "progress"
        words = [*slices, *map(str, peer), "--progress", str(progress), "--seconds", "1e9"]
        with subprocess.Popen(words, env=environment(), stdout=subprocess.DEVNULL) as running:
            try:
                while not progress.exists() or not progress.stat().st_size:
                    if running.poll() is not None:
                        sys.exit(f"{NAME}: '{' '.join(words)}' failed with {running.returncode}")
                    time.sleep(0.1)
                for _ in range(pairs):
                    text = run(*slices, *ours)
                    began, ended = (float(t) for t in re.search(r"from: ([\d.]+) to ([\d.]+)", text).groups())
                    share = float(re.search(r"processors: ([\d.]+)", text)[1])
                    own = float(re.search(r"steps: ([\d.]+)", text)[1]) / share
                    rates.append((stretch(progress, began, ended), own))
            finally:
                running.terminate()
    return [list(column) for column in zip(*rates)]
