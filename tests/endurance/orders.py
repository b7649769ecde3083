"""Whole runs whose messages come, and whose work on the simulated card ends, in orders that a seed draws."""
import pathlib
import re
import subprocess

from processes import Failure, Skipped

ORDERS = 100  # of each run, a round
# On the card, with the weights on the host and there: ledgers, weights under sync, and the staleness and the weights of
# what was recorded on processors, with every policy and every cure; tables; models that span lanes; hogwild's race. Not
# what loses a card at each call, whose orders are always the same.
RUNS = {"actors_simulated_card_test": "*/CardSteps.*:CardSteps.*Fails:CardSync.*:*/RecordedOnProcessors.*:*/CardTables.*:"
                                      "*/RecordedTables.*:*/CardSpanning.*-*.EndsInOrderWhenACardIsLost/*",
        "actors_test": "*/Schedules*",
        "actors_spanning_test": "Spanning.*"}


def rounds_of(tool, scratch, rounds, draw):
    """Orders that no round before had. They come from the whole of 32 bits, so another --seed tries others."""
    for name, tests in RUNS.items():
        expect_named(binary_of(tool, name), tests, scratch)
    for number in range(1, rounds + 1):
        first = draw.randrange(1 << 32)
        more = {"MAILGRAD_FIRST_ORDER": str(first), "MAILGRAD_ORDERS": str(ORDERS)}
        tests = sum(passed(binary_of(tool, name), tests, scratch, more, f"from order {first}")
                    for name, tests in RUNS.items())
        yield True, True, f"{tests} tests in {ORDERS} orders from {first}, {number * ORDERS} each in all: none broken"


def binary_of(tool, name):
    test = pathlib.Path(tool).resolve().parent.parent / "tests" / "actors" / name
    if not test.exists():
        raise Skipped(f"takes {test}, which the preset 'ci' builds")
    return test


def expect_named(test, tests, scratch):
    """Each pattern of a filter names a test: who renames one would else take it out of a proof."""
    patterns, _, left_out = tests.partition("-")
    for pattern in patterns.split(":") + (left_out.split(":") if left_out else []):
        named = subprocess.run([test, f"--gtest_filter={pattern}", "--gtest_list_tests"], capture_output=True, text=True,
                               cwd=scratch, env={}, check=True)
        if not re.search(r"^  \S", named.stdout, re.MULTILINE):
            raise Failure(f"no test of {test.name} is named {pattern}")


def passed(test, tests, scratch, environment, what):
    """The number of tests that passed, which is all of them and at least one."""
    done = subprocess.run([test, f"--gtest_filter={tests}"], capture_output=True, text=True, errors="replace",
                          cwd=scratch, env=environment)
    if done.returncode != 0:
        raise Failure(f"{what}: {told(done.stdout)}")
    count = int(re.search(r"PASSED  \] (\d+) test", done.stdout)[1])
    if count == 0:
        raise Failure(f"{what}: no test of {test.name} is named {tests}")
    return count


def told(output):
    """What a failed test says first."""
    failure = re.search(r"^[^\n]*: Failure$.*?(?=^$|^\[  FAILED)", output, re.MULTILINE | re.DOTALL)
    return " ".join((failure[0] if failure else output[-400:]).split())
