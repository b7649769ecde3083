"""Whole systems on a virtual clock, and stories that seeds draw: who comes, is killed, stopped, cut off, told to stop or to switch."""
import concurrent.futures
import os
import re

from orders import binary_of, output_if_passed

STORIES = 20_000  # a round
TEST = "Parts/DrawnSystems.KeepTheirPromisesWhateverHappens/*"


def rounds_of(tool, scratch, rounds, draw):
    """Stories that no round before had, on every processor, and how many faults they had."""
    test = binary_of(tool, "actors_systems_test")
    processors = len(os.sched_getaffinity(0))
    each = -(-STORIES // processors)
    faults = 0
    for number in range(1, rounds + 1):
        first = draw.randrange(1 << 48)
        with concurrent.futures.ThreadPoolExecutor(processors) as pool:
            parts = [pool.submit(output_if_passed, test, TEST, scratch,
                                 {"MAILGRAD_FIRST_STORY": str(first + p * each), "MAILGRAD_STORIES": str(each)}, f"from story {first}")
                     for p in range(processors)]
            for part in parts:
                faults += sum(int(count) for count in re.findall(r"(\d+) faults", part.result()))
        yield True, True, (f"{processors * each} stories from {first}, no promise broken; now {number * processors * each} "
                           f"with {faults} faults")
