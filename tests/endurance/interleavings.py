"""Small runs in every order in which their messages can arrive, those that are too long for every build."""
from orders import binary_of, passed

RUNS = ["ssp_1__sync_3_in_5", "ssp_1_in_6", "async_in_6", "async__sync_3_in_6"]


def rounds_of(tool, scratch, rounds, _draw):
    test = binary_of(tool, "actors_interleavings_test")
    for run in RUNS[:rounds]:
        tests = passed(test, f"*/Interleavings.*/{run}_batches", scratch, {"MAILGRAD_LONG_INTERLEAVINGS": "1"}, run)
        yield tests == 1, True, f"{run.replace('_', ' ')} batches: every order ends well"
