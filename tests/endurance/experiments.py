"""The experiments of the lab: every claim holds, in the time that is promised."""
import subprocess
import time

from processes import Skipped

QUICK_S, WHOLE_S = 15, 120
ROUNDS = 1000  # of a whole proof, which ends when each has run thrice


def names(tool):
    listed = subprocess.run([tool, "lab", "list"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in listed.splitlines()]


def round_of(tool, name, quick, seed):
    since = time.monotonic()
    words = ["--seed", str(seed)] + (["--quick"] if quick else [])
    done = subprocess.run([tool, "lab", name, *words], capture_output=True, text=True, check=False, timeout=900)
    seconds = time.monotonic() - since
    if done.returncode == 2 and "expected a data set" in done.stderr:
        raise Skipped(f"{name}: {done.stderr.strip()}")
    failed = [line for line in done.stdout.splitlines() if "FAILS" in line]
    says = "; ".join(failed) or done.stderr.strip() or done.stdout.splitlines()[-1]
    return done.returncode == 0, seconds < (QUICK_S if quick else WHOLE_S), f"{name} {' '.join(words)}: {says}"


def rounds_of(tool, _scratch, rounds, draw):
    """Each experiment in its quick form, the same with another seed, and as a whole."""
    experiments = names(tool)
    for number in range(min(rounds, 3 * len(experiments))):
        turn = number // len(experiments)
        seed = 1 if turn == 0 else draw.randrange(1, 1_000_000)
        yield round_of(tool, experiments[number % len(experiments)], turn % 3 < 2, seed)
