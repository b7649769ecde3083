"""Whole runs whose messages come, and whose work on the simulated GPU ends, in orders that a seed draws."""
import collections
import pathlib
import re
import subprocess

from processes import Failure, Skipped

ORDERS = 100  # of each run of a policy, a round
# Of each policy on the GPU, with the weights on the host and there: runs to their end and runs that are stopped.
POLICIES = "EveryPolicy/GpuSteps.*"
# On the GPU, with the weights on the host and there: ledgers, weights under sync, switches by a rule; hogwild's race.
RUNS = {"actors_simulated_gpu_test": "*/GpuSteps.*:GpuSteps.*Fails:GpuSteps.SwitchBy*:GpuSync.*:GpuSums.*",
        "actors_test": "*/Schedules*",
        "actors_spanning_test": "Spanning.*"}
# What takes longer: the staleness and the weights of what was recorded on processors, with every policy and every cure;
# tables; models that span streams; checkpoints. Not what loses a GPU at each call, whose orders are always the same.
FEWER_ORDERS = 20
LONGER_RUNS = {"actors_simulated_gpu_test": "*/RecordedOnProcessors.*:*/GpuTables.*:*/RecordedTables.*:*/GpuSpanning.*:"
                                             "GpuSpanningModels.*InEveryOrder:*/GpuCheckpoints.*:"
                                             "*/GpuCheckpointsOfSeveral.*:*/GpuTableCheckpoints.*"
                                             "-*.EndsInOrderWhenAGpuIsLost/*"}
PASSED = r"PASSED  \] (\d+) test"


def rounds_of(tool, scratch, rounds, draw):
    """Orders that no round before had. They come from the whole of 32 bits, so another --seed tries others."""
    for runs in (RUNS, LONGER_RUNS):
        for name, tests in runs.items():
            expect_named(binary_of(tool, name), tests, scratch)
    policies = tests_by_policy(binary_of(tool, "actors_simulated_gpu_test"), scratch)
    least = ORDERS * min(policies.values())
    for number in range(1, rounds + 1):
        first = draw.randrange(1 << 32)
        tests = played(tool, RUNS, first, ORDERS, scratch) + played(tool, LONGER_RUNS, first, FEWER_ORDERS, scratch)
        yield True, True, (f"{tests} tests from order {first}, none broken; now {number * least} orders or more of whole "
                           f"runs on the GPU for each of {len(policies)} policies")


def played(tool, runs, first, orders, scratch):
    """How many tests passed, each in so many orders."""
    more = {"MAILGRAD_FIRST_ORDER": str(first), "MAILGRAD_ORDERS": str(orders)}
    return sum(passed(binary_of(tool, name), tests, scratch, more, f"from order {first}") for name, tests in runs.items())


def tests_by_policy(test, scratch):
    """How many tests each policy has. A test is named after its policy, and "with weights there" if they are."""
    names = re.findall(r"^  \w+/(\w+)", listed_tests(test, POLICIES, scratch), re.MULTILINE)
    return collections.Counter(name.removesuffix("_with_weights_there") for name in names)


def binary_of(tool, name):
    test = pathlib.Path(tool).resolve().parent.parent / "tests" / "actors" / name
    if not test.exists():
        raise Skipped(f"takes {test}, which the preset 'ci' builds")
    return test


def expect_named(test, tests, scratch):
    """Each pattern of a filter names a test: who renames one would else take it out of a proof."""
    patterns, _, left_out = tests.partition("-")
    for pattern in patterns.split(":") + (left_out.split(":") if left_out else []):
        if not re.search(r"^  \S", listed_tests(test, pattern, scratch), re.MULTILINE):
            raise Failure(f"no test of {test.name} is named {pattern}")


def listed_tests(test, tests, scratch):
    return subprocess.run([test, f"--gtest_filter={tests}", "--gtest_list_tests"], capture_output=True, text=True,
                          cwd=scratch, env={}, check=True).stdout


def passed(test, tests, scratch, environment, what):
    """The number of tests that passed, which is all of them and at least one."""
    return int(re.search(PASSED, output_if_passed(test, tests, scratch, environment, what))[1])


def output_if_passed(test, tests, scratch, environment, what):
    done = subprocess.run([test, f"--gtest_filter={tests}"], capture_output=True, text=True, errors="replace",
                          cwd=scratch, env=environment)
    if done.returncode != 0:
        raise Failure(f"{what}: {told(done.stdout)}")
    if int(re.search(PASSED, done.stdout)[1]) == 0:
        raise Failure(f"{what}: no test of {test.name} is named {tests}")
    return done.stdout


def told(output):
    """What a failed test says first."""
    failure = re.search(r"^[^\n]*: Failure$.*?(?=^$|^\[  FAILED)", output, re.MULTILINE | re.DOTALL)
    return " ".join((failure[0] if failure else output[-400:]).split())
