"""What ctest and GoogleTest say of tests: which passed, which failed, and which failed by chance."""
import collections
import dataclasses
import json
import os
import re
import subprocess
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path

LAST_LINES = 25
RUN_AGAIN_AT_MOST = 20  # when more fail, something is broken, and it is no chance
SHARD = re.compile(r"(.+)\.shard_(\d+)$")


@dataclasses.dataclass
class Failure:
    """A test that failed: how to run it alone, and what it said."""

    preset: str
    name: str
    again: list
    env: dict
    said: list


@dataclasses.dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __iadd__(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        return self


def last_words(said):
    """The last lines of a test of GoogleTest that failed or did not come to its end; of all, if there is none."""
    begun = [i for i, line in enumerate(said) if line.startswith("[ RUN      ]")]
    return said[begun[-1] if begun else 0:][-LAST_LINES:]


def runs_in(said):
    """By test of GoogleTest, in the order in which they ran: its lines, the last of which tells how it ended."""
    tests, current = {}, None
    for line in said:
        if line.startswith("[ RUN      ]"):
            current = line.split("] ", 1)[1].strip()
            tests[current] = []
        if current:
            tests[current].append(line)
            if line.startswith(("[       OK ]", "[  FAILED  ]", "[  SKIPPED ]")):
                current = None
    return tests


def ended(lines, how):
    return lines[-1].startswith(how)


class Shards:
    """The tests of a preset that run many to a process, so that a process that crashes takes others along."""

    def __init__(self, preset, prefix):
        self.preset, self.prefix = preset, prefix
        listed = subprocess.run(["ctest", "--preset", preset, "--show-only=json-v1"], capture_output=True, text=True)
        presets = json.loads(Path("CMakePresets.json").read_text())["testPresets"]
        self.env = next(p for p in presets if p["name"] == preset).get("environment", {})
        self.shards = {}
        for test in json.loads(listed.stdout or '{"tests": []}')["tests"]:
            if SHARD.match(test["name"]) and "command" in test: # else it is not built
                wanted = next(p["value"] for p in test["properties"] if p["name"] == "ENVIRONMENT")
                self.shards[test["name"]] = test["command"][0], dict(w.split("=", 1) for w in wanted)

    def command(self, shard, tests):
        """A command, and its environment, for these tests of the binary of a shard."""
        return [*self.prefix, self.shards[shard][0]], {**self.env, "GTEST_FILTER": ":".join(tests)}

    def tests_of(self, shard):
        """The names of a shard's tests, as GoogleTest deals them out."""
        binary, sharding = self.shards[shard]
        listed = subprocess.run([*self.prefix, binary, "--gtest_list_tests"], capture_output=True, text=True,
                                env={**os.environ, **self.env}).stdout
        names, suite = [], ""
        for line in listed.splitlines():
            word = line.split("#")[0].strip()
            if not line.startswith(" "):
                suite = word
            elif "DISABLED_" not in suite + word:
                names.append(suite + word)
        return names[int(sharding["GTEST_SHARD_INDEX"])::int(sharding["GTEST_TOTAL_SHARDS"])]

    def run_whole(self, shard, said):
        """The tests of a shard by name, with their lines. Those behind a crash are run now."""
        tests = runs_in(said)
        everyone = self.tests_of(shard)
        while rest := [name for name in everyone if name not in tests][:500]:
            words, env = self.command(shard, rest)
            more = runs_in(output_of(words, env))
            if not more:
                return {**tests, **{name: [f"[ RUN      ] {name}", "did not begin"] for name in rest}}
            tests.update(more)
        return tests


def output_of(words, env, seconds=900):
    """What a command printed, without an end if it took too long."""
    with tempfile.TemporaryFile() as file:
        try:
            subprocess.run(words, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env={**os.environ, **env},
                           timeout=seconds)
        except subprocess.TimeoutExpired:
            pass
        file.seek(0)
        return file.read().decode(errors="replace").splitlines()


def passes(failure):
    """Whether a test that failed passes when it runs alone."""
    try:
        done = subprocess.run(failure.again, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                              env={**os.environ, **failure.env}, timeout=900)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def read(preset, report, prefix):
    """The counts of a report of ctest, whose every test has its own process or is a shard of many; and what failed."""
    counts, failures, shards = Counts(), [], None
    for test in xml.parse(report).getroot().iter("testcase"):
        name, status = test.get("name"), test.get("status")
        said = (test.findtext("system-out") or "").strip().splitlines()
        if SHARD.match(name) and status != "disabled":
            shards = shards or Shards(preset, prefix)
            tests = runs_in(said) if status == "run" else shards.run_whole(name, said)
            for each, lines in tests.items():
                if ended(lines, "[       OK ]"):
                    counts.passed += 1
                elif ended(lines, "[  SKIPPED ]"):
                    counts.skipped += 1
                else:
                    words, env = shards.command(name, [each])
                    failures.append(Failure(preset, each, words, env, lines[-LAST_LINES:]))
            if status != "run" and not any(f.name in tests for f in failures):
                failures.append(Failure(preset, name, ["false"], {}, said[-LAST_LINES:])) # at its end, outside of any test
        elif status == "run":
            counts.passed += 1
        elif status == "fail" or not skipped(test):
            again = [*prefix, "ctest", "--preset", preset, "-R", f"^{re.escape(name)}$"]
            failures.append(Failure(preset, name, again, {}, last_words(said) or ["did not begin; is it built?"]))
        else:
            counts.skipped += 1
    return counts, failures


def skipped(test):
    """Whether a test that ctest calls `notrun` or `disabled` left itself out, and is not one whose program is missing."""
    why = test.find("skipped")
    return test.get("status") == "disabled" or (why is not None and why.get("message", "").startswith("SKIP_"))


def judged(failures):
    """The failures that come again when each test runs twice alone, and those that were chance."""
    if len(failures) > RUN_AGAIN_AT_MOST:
        return failures, []
    faults = collections.defaultdict(list)
    for failure in failures:
        print(f"once more, alone: {failure.name}", flush=True)
        faults[passes(failure) and passes(failure)].append(failure)
    return faults[False], faults[True]
