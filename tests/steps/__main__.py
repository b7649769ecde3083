"""The steps of scripts/test, which installs what they take and then runs this."""
import argparse
import datetime
import os
import sys
import time
from pathlib import Path

import changed
import commands
import matrix
import results

BUDGET = 60  # minutes that a change may take: weight is a test, too
STORIES = 20_000  # of systems that are simulated (tests/actors/systems)
FLAKY = Path("build/flaky.txt")


class Run:
    """Builds and runs tests, step by step, and keeps what the last lines tell."""

    def __init__(self, whole):
        self.whole = whole
        if not whole:
            os.environ.setdefault("MAILGRAD_SLICE", str(int(time.time()) // 86400))
            # New stories each day, and the same ones all day.
            os.environ.setdefault("MAILGRAD_STORIES", str(STORIES))
            os.environ.setdefault("MAILGRAD_FIRST_STORY", str(slice_of_day() * STORIES))
        self.counts = results.Counts()
        self.refused, self.failures, self.durations = [], [], []
        self.step, self.began = "install", float(os.environ["TEST_BEGAN"])
        self.step_began = self.began
        if os.environ["INSTALL_STATUS"] != "0":
            self.refuse("scripts/install-dependencies", ["it prints above what is missing"])

    def begin(self, step):
        now = time.time()
        self.durations.append(f"{self.step} {minutes(now - self.step_began)}")
        self.step, self.step_began = step, now
        print(f"\n== {step}, after {minutes(now - self.began)}", flush=True)

    def leave_out(self, what, why):
        print(f"{what}: left out, since {why}", flush=True)

    def command(self, *words):
        """Whether a command succeeds. One that fails counts as a failed test."""
        status, lines = commands.shown(*words)
        if status:
            self.refuse(" ".join(str(w) for w in words), commands.errors_in(lines))
        return status == 0

    def refuse(self, what, why):
        self.refused += ["", f"FAILED: {what}", *why]
        self.counts.failed += 1

    def build(self, preset, *targets, settings=()):
        return (self.command("cmake", "--preset", preset, "--log-level=WARNING", *settings) and
                self.command("cmake", "--build", "--preset", preset, "-j", commands.jobs(),
                             *(["--target", *targets] if targets else [])))

    def a_fifth(self):
        """The options of ctest for every fifth test, another one each day."""
        return () if self.whole else ("-I", f"{1 + slice_of_day() % 5},,5")

    def tests(self, preset, *filters, but=(), prefix=()):
        """Runs tests of a preset, `but` those with some labels, and counts them. Those that fail run again alone: who then
        passes twice is flaky."""
        report = Path("build", preset, "tests.xml").resolve()
        report.unlink(missing_ok=True)
        # A test that waits for time or another process leaves its processor to one more.
        status, lines = commands.shown(*prefix, "ctest", "--preset", preset, "-j", commands.jobs() + 1, "--progress",
                                       "--output-junit", report, "--test-output-size-passed", 1 << 24,
                                       "--test-output-size-failed", 1 << 24, *filters,
                                       *left_out([*but, *([] if self.whole else other_days())]))
        if not report.exists():
            self.refuse(f"ctest --preset {preset}", commands.errors_in(lines))
            return
        counts, failures = results.read(preset, report, prefix)
        if status and not failures:
            failures = [results.Failure(preset, f"ctest --preset {preset}", ["false"], {}, lines[-results.LAST_LINES:])]
        self.counts += counts
        self.failures += failures

    def end(self):
        """Prints the last lines: what failed and why, what is flaky, the minutes, the counts. The exit status."""
        faults, flaky = results.judged(self.failures)
        self.begin("end")
        for failure in faults:
            print(f"\nFAILED in {failure.preset}: {failure.name}", *failure.said, sep="\n  ")
        took = time.time() - self.began
        if not self.whole and took > BUDGET * 60:
            self.refuse(f"the run took {minutes(took)} minutes", [f"its budget is {BUDGET} (tests/steps/__main__.py)"])
        print(*self.refused, sep="\n")
        self.tell_flaky(flaky)
        if not self.whole:
            day = slice_of_day()
            print(f"\nslice {day} of long tests; MAILGRAD_SLICE={day} repeats it, `scripts/test --all` has every slice")
            print(f"{os.environ['MAILGRAD_STORIES']} stories of systems from {os.environ['MAILGRAD_FIRST_STORY']}")
        print(f"minutes: {', '.join(self.durations)}; in all {minutes(took)}")
        passed, failed, skipped = self.counts.passed + len(flaky), self.counts.failed + len(faults), self.counts.skipped
        print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
        return 1 if failed else 0

    def tell_flaky(self, flaky):
        """A flaky test is a defect with a name: here, and in a file."""
        if not flaky:
            return
        print(f"\nflaky, each a defect to be mended ({FLAKY}):")
        with FLAKY.open("a") as file:
            for failure in flaky:
                line = f"{failure.preset}: {failure.name} failed once, then passed twice alone"
                print(f"  {line}")
                print(datetime.datetime.now().isoformat(timespec="minutes"), line, *failure.said, sep="\n  ", file=file)


def slice_of_day():
    return int(os.environ["MAILGRAD_SLICE"])


def other_days():
    """The label of what belongs to other days (mailgrad_rotate_tests() of CMake)."""
    return [f"^slice_[^{slice_of_day() % 5}]$"]


def left_out(names):
    """The options of ctest that leave out tests with any of these labels."""
    return ("-LE", "|".join(names)) if names else ()


def minutes(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def options():
    parser = argparse.ArgumentParser(
        prog="scripts/test", formatter_class=argparse.RawDescriptionHelpFormatter,
        description=f"Builds and tests all that a change must not break. Steps:\n\n{matrix.described(matrix.A_CHANGE)}\n\n"
                    f"and with --all:\n\n{matrix.described(matrix.EVERYTHING)}",
        epilog="Tests over many seeds take the slice of the day, with --all every one. A test that fails runs again twice, alone; if it\n"
               "passes both times it is reported as flaky, and is no failure. Build folders stay in build/, so a second run\n"
               "builds only what has changed. Two cores take 36 minutes, and hours with --all.")
    parser.add_argument("--all", action="store_true", help="every test in every build")
    parser.add_argument("--changed", action="store_true", help="only what depends on files that differ from the last commit")
    parser.add_argument("--since", metavar="REV", default="HEAD", help="with --changed: from this commit instead")
    parser.add_argument("steps", nargs="*", metavar="STEP", help="only these steps")
    chosen = parser.parse_args()
    every = {step.__name__.replace("_", "-"): step for step in (matrix.EVERYTHING if chosen.all else matrix.A_CHANGE)}
    if unknown := [name for name in chosen.steps if name not in every]:
        parser.error(f"there is no step '{unknown[0]}'; choose among {', '.join(every)}")
    if chosen.changed and (chosen.all or chosen.steps):
        parser.error("--changed chooses the tests itself; leave out --all and steps")
    return chosen, {name: every[name] for name in chosen.steps or every}


def main():
    chosen, steps = options()
    if chosen.changed:
        return changed.check(chosen.since)
    run = Run(chosen.all)
    for name, step in steps.items():
        run.begin(name)
        step(run)
    return run.end()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\ninterrupted; build folders stay, and the next run goes on from there")
        sys.exit(130)
