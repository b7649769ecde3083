"""Whole runs on the simulated GPU, each with one fault: at every allocation, kernel and call in turn."""
from orders import binary_of, passed

KINDS = ("OutOfMemory", "OutOfPinnedMemory", "OutOfDriverMemory", "StickyFault", "LostGpu")


def rounds_of(tool, scratch, rounds, draw):
    """A round has one kind of fault."""
    for kind in KINDS[:rounds]:
        tests = passed(binary_of(tool, "actors_gpu_faults_test"), f"*/GpuFaults.*{kind}", scratch,
                       {"MAILGRAD_EVERY_FAULT": "1"}, kind)
        yield True, True, f"{kind} at every place of {tests} runs: each ended in order and told why"
