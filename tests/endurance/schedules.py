"""R8: sessions over the simulated network, whose faults a seed draws. They keep their promises under every seed."""
import pathlib
import re
import subprocess

from processes import Failure, Skipped

SEEDS = 1000  # of each of the five kinds of network, a round


def rounds_of(tool, scratch, rounds, draw):
    """Seeds that no round before had. They come from the whole of 32 bits, so another --seed tries others."""
    test = pathlib.Path(tool).resolve().parent.parent / "tests" / "net" / "net_test"
    if not test.exists():
        raise Skipped(f"takes {test}, which the preset 'ci' builds")
    played = 0
    for _ in range(rounds):
        first = draw.randrange(1 << 32)
        done = subprocess.run([test, "--gtest_filter=SessionSchedules.*", "--gtest_brief=1"], capture_output=True,
                              text=True, errors="replace", cwd=scratch,
                              env={"MAILGRAD_NET_SEED": str(first), "MAILGRAD_NET_SCHEDULES": str(SEEDS)})
        if done.returncode != 0:
            told = re.search(r"repeat by .*", done.stdout)
            raise Failure(told[0] if told else done.stdout[-400:])
        counts = [int(count) for count in re.findall(r"^(\d+) schedules", done.stdout, re.MULTILINE)]
        played += sum(counts)
        yield sum(counts) > 0, True, f"{sum(counts)} schedules from seed {first}, {played} in all: none broken"
