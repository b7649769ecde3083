"""Whole runs on the simulated card, whose messages come, and whose work ends, in orders that a seed draws."""
import pathlib
import re
import subprocess

from processes import Failure, Skipped

ORDERS = 100  # of each run, a round
RUNS = "EveryWayOfAGradient/CardSteps.*"  # every policy, with the weights on the host and on the card


def rounds_of(tool, scratch, rounds, draw):
    """Orders that no round before had. They come from the whole of 32 bits, so another --seed tries others."""
    test = pathlib.Path(tool).resolve().parent.parent / "tests" / "actors" / "actors_simulated_card_test"
    if not test.exists():
        raise Skipped(f"takes {test}, which the preset 'ci' builds")
    for number in range(1, rounds + 1):
        first = draw.randrange(1 << 32)
        done = subprocess.run([test, f"--gtest_filter={RUNS}"], capture_output=True, text=True, errors="replace",
                              cwd=scratch, env={"MAILGRAD_FIRST_ORDER": str(first), "MAILGRAD_ORDERS": str(ORDERS)})
        if done.returncode != 0:
            raise Failure(f"from order {first}: {told(done.stdout)}")
        tests = int(re.search(r"PASSED  \] (\d+) test", done.stdout)[1])
        yield tests > 0, True, f"{tests} tests in {ORDERS} orders from {first}, {number * ORDERS} each in all: none broken"


def told(output):
    """What a failed test says first."""
    failure = re.search(r"^.*: Failure$(.*?)^$", output, re.MULTILINE | re.DOTALL)
    return " ".join((failure[0] if failure else output[-400:]).split())
