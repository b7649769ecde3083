"""Processes of the tool, and runs that are spread over several of them, for proofs that kill, stop and cut them."""
import json
import random
import signal
import subprocess
import tempfile
import threading
import time


class Failure(Exception):
    """What a round found, in one line."""


class Skipped(Exception):
    """What this machine lacks for a proof."""


def write_samples(path, rows):
    draw = random.Random(1)
    with open(path, "w") as file:
        file.write("x,y,z,label\n")
        for _ in range(rows):
            label = draw.randrange(3)
            file.write(",".join(f"{draw.gauss(2 * (i == label), 1):.4f}" for i in range(3)) + f",{label}\n")


class Draw(random.Random):
    """Draws what a proof leaves to chance, and knows its seed, so that a round can be repeated alone."""

    def __init__(self, seed):
        super().__init__(seed)
        self.seed_given = seed


def children_of(process):
    try:
        with open(f"/proc/{process}/task/{process}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


class Process:
    """A process of the tool whose standard error is read as it comes, and its standard output at its end."""

    def __init__(self, *command):
        self.lines = []  # (moment, text)
        self.heard = threading.Condition()
        self.words = command
        self.output = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdout=self.output, stderr=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            with self.heard:
                self.lines.append((time.monotonic(), line.rstrip("\n")))
                self.heard.notify_all()

    def said(self, text, after=0.0):
        """The moment and the line of the first one with this text; None if there is none."""
        return next(((t, line) for t, line in list(self.lines) if text in line and t >= after), None)

    def says(self, text, within=20.0, after=0.0):
        """Waits for such a line, and returns its moment and itself."""
        end = time.monotonic() + within
        with self.heard:
            while not (found := self.said(text, after)):
                left = end - time.monotonic()
                if left <= 0 or not self.heard.wait(min(left, 0.5)) and self.process.poll() is not None:
                    raise Failure(f"nobody says '{text}' within {within:g} s: {self.told()}")
        return found

    def reaches(self, state, within):
        """Waits until this holds or the process has ended. Whether one of both is so in time."""
        end = time.monotonic() + within
        while not state() and self.process.poll() is None:
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        self.reader.join(0.2 if self.process.poll() is not None else 0)
        return True

    def summary(self):
        self.output.seek(0)
        return self.output.read()

    def told(self):
        return " | ".join(line for _, line in self.lines[-4:])

    def ends(self, within=20.0):
        """Waits for the end. Returns the exit status, or minus the signal."""
        try:
            code = self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise Failure(f"a process hangs: {' '.join(map(str, self.words))}: {self.told()}") from None
        self.reader.join(1)
        return code

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def stated(words):
    """The words of a run, with the rule and the device of these rounds: one that names none takes adam and all cores."""
    rule = [] if "--optimizer" in words else ["--optimizer", "sgd"]
    device = [] if "--devices" in words or "--processes" in words else ["--devices", "cpu:0"]
    return [*words, *rule, *device]


class Run:
    """A server and the workers that join it. Whoever still lives at its end is killed.

    `keys` is a file that proves who belongs to the run. `near` and `far` are words before the commands of the server,
    and of the workers, which run on another network with them.
    """

    def __init__(self, tool, scratch, workers, *options, rows=4000, model="mlp:hidden=16", listen="127.0.0.1:0",
                 keys=None, near=(), far=(), rate="0.05"):
        self.tool = str(tool)
        self.keys = ["--keys", str(keys)] if keys else []
        self.near, self.far = near, far
        self.scratch = scratch
        self.report_file, self.metrics = scratch / "report.json", scratch / "metrics.jsonl"
        for old in (self.report_file, self.metrics):
            old.unlink(missing_ok=True)
        data = scratch / "samples.csv"
        if not data.exists():
            write_samples(data, rows)
        self.all = []
        self.server = self.start("serve", "--listen", listen, "--workers", str(workers), "--model", model, "--data",
                                 str(data), "--batch", "8", "--lr", rate, "--report", str(self.report_file),
                                 "--metrics", str(self.metrics), "--metrics-every", "50ms", *self.keys, *options,
                                 *([] if "--optimizer" in options else ["--optimizer", "sgd"]), on=near)
        self.address = self.server.says("listening on ")[1].split()[2]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.all:
            process.kill()

    def start(self, *words, on=()):
        process = Process(*on, self.tool, *words)
        self.all.append(process)
        return process

    def join(self, *words, address=None):
        """A worker, once the server has taken it in."""
        worker = self.start("join", address or self.address, *self.keys, *words, on=self.far)
        worker.says("has joined")
        return worker

    def lines(self):
        """What the metrics tell: dictionaries with time_s and steps."""
        if not self.metrics.exists():
            return []
        return [json.loads(line) for line in self.metrics.read_text().split("\n")[:-1]]

    def steps(self):
        lines = self.lines()
        return lines[-1]["steps"] if lines else 0

    def wait_for_steps(self, count, within=30.0):
        self._wait(lambda: self.steps() >= count, within,
                   lambda: f"{self.steps()} of {count} steps")

    def wait_for_time(self, time_s, within=30.0):
        """Waits until a line of the metrics was written so long after the run began."""
        self._wait(lambda: (self.lines() or [{"time_s": 0}])[-1]["time_s"] >= time_s, within,
                   lambda: f"no line of the time {time_s:.1f} s")

    def _wait(self, until, within, found):
        end = time.monotonic() + within
        while not until():
            if time.monotonic() > end or self.server.process.poll() is not None:
                raise Failure(f"{found()} after {within:g} s: {self.server.told()}")
            time.sleep(0.02)

    def ends_within(self, seconds):
        """Whether the server's process has ended by then."""
        try:
            self.server.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self):
        done = subprocess.run([*self.near, self.tool, "stop", self.address, *self.keys], capture_output=True, text=True,
                              timeout=20)
        if done.returncode != 0:
            raise Failure(f"stop: {done.stderr.strip()}")

    def report(self, within=30.0):
        """Waits for the end of the run, and returns its report, whose ledger balances."""
        self.server.ends(within)
        report = json.loads(self.report_file.read_text())
        balance(report)
        return report


def balance(report):
    books = report["ledger"]
    counted = books["applied"] + books["merged"] + sum(books["discarded"].values()) + books["lost"]
    if counted != books["produced"]:
        raise Failure(f"the ledger does not balance: {books}")


def end_now(process):
    """Ends a worker as Ctrl-C does."""
    process.signal(signal.SIGINT)
    return process.ends()


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
