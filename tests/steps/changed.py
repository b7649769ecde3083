"""What depends on the files that differ from a commit, built and run in the preset `dev`, the nearest first.

A file of a library counts as its whole library. A binary with a changed test always runs. The others run while there is time
by what they took the last time: those of a changed folder first, then those of folders above it, then tests that took long.
"""
import json
import os
import re
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import commands

BUILD = Path("build/dev")
SECONDS = 50  # within which all should have ended
LEAST = 25  # seconds that tests have in any case, however long the build took
LONG = 1.0  # seconds of a test that waits until the others have passed
TIMES = BUILD / "changed.json"
FLOORS = ["tensor", "options", "files", "kernels", "net", "graph", "optim", "data", "engine", "actors", "lab", "cli"]
LABELS = ["unit", "actor", "thread", "process"]


class Binary:
    """A program of tests, and what it is built from."""

    def __init__(self, path, label):
        self.path, self.label = path, label
        self.folder = path.split("/")[1]
        self.inputs = set()

    def rank(self, folders, seconds):
        """Small for a binary near the change, and there for a short one."""
        near = 0 if self.folder in folders else 1
        floor = FLOORS.index(self.folder) if self.folder in FLOORS else len(FLOORS)
        return near, floor, seconds, LABELS.index(self.label), self.path


def lines_of(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()


def differing(since):
    """Files that differ from a commit, and new ones that git does not ignore."""
    return sorted(set(lines_of("git", "diff", "--name-only", since)) | set(lines_of("git", "ls-files", "--others", "--exclude-standard")))


def inputs_of(targets):
    """What each target is built from, itself."""
    found, current, among = {}, None, False
    for line in lines_of("ninja", "-C", str(BUILD), "-t", "query", *targets) if targets else ():
        if not line.startswith(" "):
            current = found.setdefault(line.rstrip(":"), [])
        elif line.startswith("  "):
            if re.match(r"  \w", line):
                among = line.startswith("  input")
            elif among:
                current.append(line.split()[-1])
    return found


def binaries():
    """All programs of tests, with everything that they are linked from."""
    labels = inputs_of([f"mailgrad_tests_{label}" for label in LABELS])
    named = {path: label.removeprefix("mailgrad_tests_") for label, paths in labels.items() for path in paths if path.startswith("tests/")}
    inputs = inputs_of(sorted(named))
    while missing := {i for of in inputs.values() for i in of if re.search(r"\.(so|a)(\.[\d.]+)?$", i)} - inputs.keys():
        inputs.update(dict.fromkeys(missing, ()) | inputs_of(sorted(missing)))
    found = []
    for path, label in named.items():
        binary, open_ones = Binary(path, label), [path]
        while open_ones:
            more = set(inputs.get(open_ones.pop(), ())) - binary.inputs
            binary.inputs |= more
            open_ones += more
        found.append(binary)
    return found


def depends(binary, file):
    """Whether a binary is built from a file, or starts the tool, which is built from all."""
    folder, _, rest = file.partition("/")
    if folder == "tests":
        if file.endswith(".cpp") and (built := [i for i in binary.inputs if i.endswith(Path(file).name + ".o")]):
            return bool(built)
        return rest.startswith("support/") or (file.endswith(".hpp") and rest.split("/")[0] == binary.folder)
    return folder in FLOORS and (binary.folder == "cli" or any(f"libmailgrad_{folder}." in i for i in binary.inputs))


def ran(binary, tests):
    """How a binary's tests ended: counts, their seconds by name, and what those that failed said."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.json"
        done = subprocess.run([BUILD.resolve() / binary.path, "--gtest_brief=1", f"--gtest_output=json:{report}"], cwd=scratch,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              env={**os.environ, "GTEST_FILTER": tests, "MAILGRAD_SLICE": str(int(time.time()) // 86400)})
        suites = json.loads(report.read_text())["testsuites"] if report.exists() else []
    seconds, passed, failed = {}, 0, 0
    for suite in suites:
        for test in suite["testsuite"]:
            if test["result"] == "COMPLETED":
                seconds[f"{suite['name']}.{test['name']}"] = float(test["time"].rstrip("s"))
                failed += bool(test.get("failures"))
                passed += not test.get("failures")
    if done.returncode and not failed:
        failed = 1  # a crash
    return passed, failed, seconds, done.stdout if failed else ""


class Session:
    """The time that tests have, what they took the last time, and how they ended."""

    def __init__(self, files):
        self.until = time.monotonic() + SECONDS
        self.changed_tests = [file for file in files if file.startswith("tests/")]
        self.times = json.loads(TIMES.read_text()) if TIMES.exists() else {}
        self.passed, self.failed, self.left = 0, 0, []

    def is_over(self, seconds=0.0):
        return time.monotonic() + seconds > self.until

    def took(self, binary, long=False):
        """The seconds of its tests that are long, or of the others, by name."""
        return {name: seconds for name, seconds in self.times.get(binary.path, {}).items() if (seconds > LONG) == long}

    def play(self, binary, tests, seconds, name):
        if self.is_over(seconds) and not any(depends(binary, file) for file in self.changed_tests):
            self.left.append(name)
            return
        passed, failed, took, said = ran(binary, tests)
        self.times.setdefault(binary.path, {}).update(took)
        self.passed += passed
        self.failed += failed
        print(f"{binary.path}: {passed} passed" + (f", {failed} FAILED\n{said}" if failed else ""), flush=True)

    def play_short(self, binary):
        self.play(binary, "*-" + ":".join(self.took(binary, long=True)), sum(self.took(binary).values()), binary.path)

    def play_long(self, binary):
        slow = self.took(binary, long=True)
        if slow and binary.path not in self.left:
            self.play(binary, ":".join(slow), sum(slow.values()), f"{len(slow)} long tests of {binary.path}")


def check(since):
    began = time.monotonic()
    files = differing(since)
    if not files:
        print(f"nothing differs from {since}")
        return 0
    if commands.shown("cmake", "--preset", "dev", "--log-level=WARNING")[0]:
        return 1
    chosen = [b for b in binaries() if any(depends(b, file) for file in files)]
    if not chosen:
        print(f"no test is built from what differs from {since}: {', '.join(files[:5])}{', ...' if len(files) > 5 else ''}")
        return 0
    folders = {part for file in files for part in file.split("/")[:2]}
    session = Session(files)
    chosen.sort(key=lambda b: b.rank(folders, sum(session.took(b).values())))
    near = [b for b in chosen if b.folder in folders]
    for group in (near, [b for b in chosen if b not in near]):
        if group and session.is_over() and group is not near:
            session.left += [b.path for b in group]
        elif group:
            if commands.shown("cmake", "--build", BUILD, "-j", commands.jobs(), "--target", *(Path(b.path).name for b in group))[0]:
                return 1
            if group is near:
                session.until = max(session.until, time.monotonic() + LEAST)
            with ThreadPoolExecutor(commands.jobs()) as pool:
                list(pool.map(session.play_short, group))
    for binary in chosen:
        session.play_long(binary)
    TIMES.write_text(json.dumps(session.times))
    if session.left:
        print(f"left out for lack of time: {', '.join(session.left)}; scripts/test runs them")
    print(f"{session.passed} passed, {session.failed} failed, in {time.monotonic() - began:.0f} s")
    return 1 if session.failed else 0
