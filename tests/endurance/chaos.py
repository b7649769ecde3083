"""Whole systems of real processes that a seed draws, and what happens to them: every promise of docs/remote.md is kept.

A story has up to three legs, each a server, or `train --processes`, with its workers and parameter hosts. Faults strike
them, one after the other or a second one while the first lasts. The next leg resumes what the one before left.
"""
import concurrent.futures
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import time

from pauses import Wire
from processes import Failure, Process, balance, children_of, write_samples

POLICIES = ["async", "sync", "ssp:2", "dssp:0,3", "backup:1", "k-async:2", "quorum:2,grace=0.05", "k-batch-async:2",
            "queue:2,4", "k-batch-sync:2", "rennala:2", "malenia:1", "ringleader", "ringmaster:3", "auto"]
CURES = ["inverse", "dynsgd", "polynomial:0.5", "hinge:10,4", "mishchenko", "koloskova", "fedbuff", "rescaled",
         "dc-asgd:0.04", "dc-asgd-a:2", "delay-feedback:0.5", "gap-aware", "dana-zero", "dana-slim", "dana-dc", "easgd",
         "momentum-compensation"]
AT_ONCE = 3 * len(os.sched_getaffinity(0))  # since a story mostly waits
ENDLESS = 100_000_000
BOUND_S = 40.0  # until a process ends that has a reason to, or a run goes on that can: the machine is busy
RAW = re.compile(r"terminate called|what\(\):|std::|caf::|boost|bad_\w+|Sanitizer|runtime error|[Aa]ssert|basic_string|vector::"
                 r"|map::at|[\x00-\x08\x0b-\x1f]")
EVENTS = {"kill": 4, "replace": 4, "freeze one": 5, "freeze some": 2, "freeze server": 2, "freeze host": 2, "freeze all": 2, "cut": 1,
          "join": 3, "leave": 2, "switch": 3, "kill host": 0.4, "status": 1}
ENDS = {"stop": 4, "SIGTERM": 2, "SIGINT": 1, "kill server": 3, "wait": 2}


def one_of(draw, weights):
    return draw.choices(list(weights), weights.values())[0]


def command_of(pid):
    """Its words; none of a process that has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().decode().split("\0")[:-1]
    except OSError:
        return []


class System:
    """The commands of a run, but for its addresses and files."""

    def __init__(self, draw):
        self.workers = draw.choice([1, 2, 2, 3, 3, 4, 5])
        self.apart = draw.random() < 0.25  # train --processes
        self.wire = "memory" if self.apart else draw.choice(["tcp", "tcp", "memory", "token", "certificates"])
        shards = draw.choice([1, 1, 2, 2, 3])
        self.hosts = 0 if self.apart or draw.random() < 0.5 else draw.randint(1, shards)
        self.policy = draw.choice(POLICIES)
        if draw.random() < 0.15:
            self.policy = ", ".join(f"{draw.choice(POLICIES[:-1])}{f'@{400 * n}' if n else ''}" for n in range(3))
        self.cure = draw.choice(CURES) if draw.random() < 0.3 else "none"
        self.local = draw.choice([2, 4]) if draw.random() < 0.15 else 0
        self.steps = draw.randrange(300, 4000) if draw.random() < 0.35 else ENDLESS
        self.recorded, self.kept = draw.random() < 0.5, draw.random() < 0.5
        self.heartbeat = draw.choice([50, 100, 250, 250, 250, 500, 1000])
        self.alone = draw.choice(["60", "60", "end", "wait", "2"])
        self.terms = ["--model", draw.choice(["softmax", "mlp:hidden=16", "mlp:hidden=24x12,dropout=0.25"]), "--batch", "8",
                      "--lr", "0.005", "--optimizer", draw.choice(["sgd", "sgd", "momentum", "adam"]),
                      "--shards", str(shards), "--steps", str(self.steps), "--policy", self.policy, "--cure", self.cure]
        self.terms += ["--local-steps", str(self.local)] if self.local else []
        if draw.random() < 0.12 and not self.recorded:
            self.terms += ["--wire", draw.choice(["bfloat16", "float16", "int8", "top-k:0.1", "1-bit"])]
        self.every = draw.choice(["50", "500", "1s"])
        others = draw.randint(0, 2)
        self.slots = self.workers + others * (not self.apart and (self.may_have_others() or not self.kept))
        self.places = ["--heartbeat", str(self.heartbeat), "--when-alone", self.alone]
        if self.apart:
            self.places += ["--processes", str(self.workers)]
        else:
            self.places += ["--workers", str(self.workers), "--shard-hosts", str(self.hosts)]
            self.places += ["--slots", str(self.slots)] if self.slots > self.workers else []

    def may_have_others(self):
        """Whether a resumed run may have more workers, or fewer."""
        return not self.local and self.cure == "none"


class Member:
    """A process that takes part: one that was started here, or a child of `train --processes`."""

    def __init__(self, role, pid, process=None):
        self.role, self.pid, self.process = role, pid, process
        self.command = command_of(pid)  # another process may have its number later
        self.wire = None  # its connection with the server, if that can be cut
        self.struck = None  # what was done to it, which others may take for its death
        self.sent = set()  # signals that end a process

    def was(self, number, incarnation):
        joined, back = f"worker {number} (incarnation {incarnation}) has joined", f"worker {number} is back as incarnation {incarnation}"
        return self.process and (self.process.said(joined) or self.process.said(back))

    def lives(self):
        if self.process:
            return self.process.process.poll() is None
        return command_of(self.pid) == self.command != []

    def signal(self, number, why=None):
        self.struck = why or self.struck
        if number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            self.sent.add(number)
        if self.lives():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass  # it has just ended

    def was_in(self):
        return not self.process or self.process.said("has joined") is not None

    def is_in(self):
        return self.lives() and self.was_in()


class Story:
    """One round: it plays what its seed draws, and raises Failure where a promise is broken."""

    def __init__(self, tool, scratch, keys, seed):
        self.tool, self.scratch, self.keys, self.draw = str(tool), scratch, keys, random.Random(seed)
        self.told, self.all, self.begun = [], [], time.monotonic()
        self.system = System(self.draw)
        self.leg, self.repeatable = 0, True

    def tell(self, what):
        self.told.append(f"{time.monotonic() - self.begun:.2f} s: {what}")

    def start(self, role, *words):
        self.tell(shlex.join(words))
        process = Process(self.tool, *words)
        member = Member(role, process.process.pid, process)
        self.all.append(member)
        return member

    def play(self):
        words = self.first_words()
        while words:
            self.leg += 1
            self.one_leg(words)
            words = self.next_words() if self.leg < 3 else None
        return f"{self.leg} runs, {len(self.told)} events: {self.system.policy}"

    # How a leg begins

    def first_words(self):
        s = self.system
        words = ["train" if s.apart else "serve", *s.terms, *s.places, "--data", str(self.scratch.parent / "samples.csv"),
                 "--report", str(self.scratch / "run.json")]
        if not s.apart:
            name = {"memory": f"memory:chaos-{os.getpid()}-{self.draw.randrange(1 << 30)}"}.get(s.wire, "127.0.0.1:0")
            words += ["--listen", name, *self.key_words()]
        words += ["--record", str(self.scratch / "run.rec")] if s.recorded else []
        words += ["--checkpoint", str(self.scratch / "kept"), "--checkpoint-every", s.every] if s.kept else []
        return words

    def key_words(self):
        folder = {"token": self.keys / "token", "certificates": self.keys}.get(self.system.wire)
        return ["--keys", str(folder)] if folder else []

    def next_words(self):
        """The command by which the run goes on: the one that was printed, or one with other places; None if it does not."""
        draw, s = self.draw, self.system
        printed = re.search(r"^goes on by\s+mailgrad (.*)$", self.server.process.summary(), re.MULTILINE)
        if draw.random() < 0.3 or not list((self.scratch / "kept").glob("checkpoint-*.safetensors")):
            return None
        if printed and draw.random() < 0.6:
            return shlex.split(printed[1], comments=True)
        apart = s.apart if draw.random() < 0.7 else not s.apart
        words = ["train" if apart else "serve", "--resume", str(self.scratch / "kept"), "--same-outputs"]
        if s.may_have_others() and draw.random() < 0.4:
            s.workers = s.slots = draw.randint(max(1, s.workers - 1), s.workers + 1)
            words += ["--processes" if apart else "--workers", str(s.workers)]
            words += [] if apart else ["--slots", str(s.workers)]
        elif apart and not s.apart:
            words += ["--processes", str(s.workers)]
        if s.apart and not apart:
            words += ["--listen", "127.0.0.1:0"]
            s.wire = "tcp"
        return words

    def begin(self, words):
        """Starts the server. True if it takes these options, as it must if it resumes a run."""
        s = self.system
        s.apart = words[0] == "train"
        s.wire = "memory" if s.apart else s.wire
        self.report = self.scratch / "run.json"
        self.report.unlink(missing_ok=True)
        self.server = self.start("server", *words)
        self.members, self.children, self.ordered, self.frozen = [], s.apart, set(), False
        said = self.server.process
        if s.apart:
            said.reaches(lambda: children_of(self.server.pid), BOUND_S)
        else:
            said.reaches(lambda: said.said("listening on "), BOUND_S)
        if said.process.poll() is not None:
            return False
        if s.apart:
            said.reaches(lambda: len(self.child_pids()) == s.workers, BOUND_S)
            pids = self.child_pids()
            self.members = [Member("worker", pid) for pid in pids]
            self.address = next((word for word in map(self.second_word, pids) if word), None)
        else:
            self.address = said.said("listening on ")[1].split()[2]
            self.gather()
        return True

    def child_pids(self):
        return [pid for pid in children_of(self.server.pid) if self.second_word(pid)]

    @staticmethod
    def second_word(pid):
        words = command_of(pid)
        return words[2] if words[1:2] == ["join"] else None

    def gather(self):
        """Parameter hosts and workers come, and some of them twice."""
        coming = ["host"] * self.system.hosts + ["worker"] * self.system.workers
        self.draw.shuffle(coming)
        for role in coming:
            member = self.come(role)
            if role == "worker" and self.draw.random() < 0.12:
                self.wait_until_in(member)
                if self.draw.random() < 0.5:
                    member.signal(signal.SIGKILL, "killed before the begin")
                    self.tell(f"kill -9 of {member.pid}, before the begin")
                    self.come("worker")
                else:
                    self.hold([member], self.draw.uniform(0.2, 2))
            time.sleep(self.draw.choice([0, 0.02, 0.2]))

    def come(self, role, *words):
        if role == "host":
            tls = self.system.wire in ("token", "certificates")
            listen = "memory:" if self.address.startswith("memory:") else "127.0.0.1:0"
            member = self.start(role, "shard", "--join", self.address, "--listen", listen, *(self.key_words() if tls else []))
        else:
            own = ["--data", str(self.scratch.parent / "samples.csv")] if self.draw.random() < 0.3 else []
            wire = Wire(self.address) if self.system.wire in ("tcp", "token") and self.draw.random() < 0.2 else None
            member = self.start(role, "join", wire.address if wire else self.address, *self.key_words(), *own, *words)
            member.wire = wire
        self.members.append(member)
        return member

    def wait_until_in(self, member):
        member.process.reaches(lambda: member.process.said("has joined"), 5)

    # What happens in a leg

    def one_leg(self, words):
        while not self.begin(words):
            self.server.process.ends(BOUND_S)
            told = self.server.process.told()
            if self.server.process.said("nothing is left to train") and self.server.process.process.returncode == 0:
                return
            if self.leg > 1 and re.search(r"with \d+ workers?", told):
                return  # the policy takes no fewer
            if self.leg > 1 or self.server.process.process.returncode != 2 or RAW.search(told):
                raise Failure(f"the server did not begin: {self.server.process.process.returncode}: {told}")
            self.all.clear()  # these options exclude each other, as one line has said
            self.told.clear()
            self.system = System(self.draw)
            words = self.first_words()
        time.sleep(self.draw.uniform(0.1, 1))
        for _ in range(self.draw.randint(1, 5)):
            time.sleep(self.draw.choice([0, 0.03, 0.3, 0.8]))
            self.event()
        end = one_of(self.draw, ENDS)
        if end != "kill server" and self.draw.random() < 0.7:
            self.go_on()
        self.hold(self.live("worker")[:self.draw.choice([0, 0, 0, 1])], self.draw.choice([0, 0.4, 2]), lambda: self.end_by(end))
        self.judge()

    def live(self, role):
        return [m for m in self.members if m.role == role and not m.sent and m.is_in()]

    def event(self, during=False):
        kind, pick = one_of(self.draw, EVENTS), self.draw.random()
        workers, hosts = self.live("worker"), self.live("host")
        worker = workers[int(pick * len(workers))] if workers else None
        host = hosts[int(pick * len(hosts))] if hosts else None
        span = self.draw.choices([0.2, 0.4, 1, 2.2, 4, 10], [3, 4, 4, 4, 2, 0.5])[0]
        if kind in ("kill", "replace", "leave") and worker:
            self.tell(f"{kind} worker {worker.pid}")
            worker.signal(signal.SIGINT if kind == "leave" else signal.SIGKILL, kind)
            if kind == "replace" and self.address:
                self.come("worker", *self.number_of(worker))
        elif kind == "kill host" and host:
            self.tell(f"kill -9 of parameter host {host.pid}")
            host.signal(signal.SIGKILL, kind)
        elif kind == "join" and self.address:
            self.come("worker")
        elif kind == "switch" and self.address:
            self.ask("switch", self.draw.choice(POLICIES[:-1]))
        elif kind == "status" and self.address:
            self.ask("status")
        elif kind.startswith("freeze") and not during:
            whom = {"freeze one": [worker], "freeze some": workers[:1 + int(pick * len(workers))], "freeze server": [self.server],
                    "freeze host": [host], "freeze all": [self.server, *workers, *hosts]}[kind]
            if self.server in whom or host in whom:
                span = min(span, self.system.heartbeat * 0.1)  # a parameter host is waited for for 240 heartbeats
            self.hold([m for m in whom if m], span, (lambda: self.event(during=True)) if self.draw.random() < 0.4 else None)
        elif kind == "cut" and worker and worker.wire and not during:
            self.cut(worker, span)

    def number_of(self, worker):
        told = worker.process and worker.process.said("has joined")
        return ["--number", told[1].split()[1]] if told and self.draw.random() < 0.5 else []

    def cut(self, worker, span):
        self.tell(f"no network for worker {worker.pid} for {span:g} s")
        worker.struck = "cut"
        worker.wire.open.clear()
        time.sleep(span)
        worker.wire.open.set()

    def hold(self, whom, span, meanwhile=None):
        """Stops processes for so many seconds, and does something else meanwhile."""
        self.tell(f"SIGSTOP for {span:g} s: {', '.join(f'{m.role} {m.pid}' for m in whom)}") if whom else None
        if any(m.role != "worker" for m in whom):
            self.frozen = True  # whom they hear late is anybody
        for member in whom:
            member.signal(signal.SIGSTOP, "stopped")
        try:
            time.sleep(span / 2)
            if meanwhile:
                meanwhile()
            time.sleep(span / 2)
        finally:
            for member in whom:
                member.signal(signal.SIGCONT)
            self.tell("SIGCONT") if whom else None

    def ask(self, command, *words):
        """Another process that asks the run, while it may be stopped or ending."""
        self.tell(shlex.join([command, *words])) if words != ("--json",) else None
        try:
            done = subprocess.run([self.tool, command, self.address, *words, *self.key_words()], capture_output=True, text=True,
                                  timeout=BOUND_S)
        except subprocess.TimeoutExpired:
            raise Failure(f"{command} hangs") from None
        if done.returncode not in (0, 1, 2) or RAW.search(done.stderr) or (done.returncode and "mailgrad" not in done.stderr):
            raise Failure(f"{command} ends with {done.returncode}: {done.stderr}")
        return done

    def go_on(self):
        """Whoever is missing comes, and then the run goes on unless it has ended."""
        if not self.address:
            return
        said, was, end = self.server.process.process, None, time.monotonic() + BOUND_S
        while said.poll() is None:
            there = [m for m in self.members if m.role == "worker" and not m.sent and m.lives()]
            if not self.children and len(there) < self.system.workers:
                self.come("worker")
            done = self.ask("status", "--json")
            steps = json.loads(done.stdout)["report"]["steps"] if done.returncode == 0 else None
            if steps is not None and was is not None and steps > was:
                return
            was = steps if was is None else was
            if not there and self.children:
                return  # nobody comes any more
            if time.monotonic() > end:
                raise Failure(f"no step in {BOUND_S:g} s: {self.ask('status').stdout}")
            time.sleep(0.1)

    def end_by(self, end):
        server = self.server
        if end == "wait" and self.system.steps == ENDLESS or end == "stop" and not self.address:
            end = "SIGTERM"
        self.tell(end) if end != "stop" else None
        if end == "kill server":
            server.signal(signal.SIGKILL, end)
        elif end == "stop":
            for _ in range(3):  # a server that was stopped, or whose processors are busy, may answer late
                if self.ask("stop").returncode == 0 or not server.lives():
                    break
            self.ordered.add("stop")
        elif end == "wait":
            if not server.process.reaches(lambda: False, BOUND_S):
                self.tell("stop")
                self.ask("stop")
                self.ordered.add("stop")
        else:
            server.signal(getattr(signal, end))

    # What must hold in the end

    def judge(self):
        code = self.server.process.ends(BOUND_S)
        for member in self.members:
            if member.wire:
                member.wire.close()
            if not member.is_in():
                member.signal(signal.SIGKILL)  # else it looks for the server for 10 s
            if member.process:
                member.process.ends(BOUND_S)
        self.repeatable &= not self.server.process.said("this run goes on without a recording")
        report = json.loads(self.report.read_text()) if self.report.exists() else None
        self.judge_server(code, report)
        for member in self.members:
            if member.process:
                self.judge_member(member, code)
        for member in [self.server, *self.members]:
            for _, line in member.process.lines if member.process else []:
                if RAW.search(line):
                    raise Failure(f"{member.role} {member.pid} says: {line!r}")
        if self.server.sent != {signal.SIGKILL}:
            self.judge_losses()
            if report:
                self.judge_report(report)
                self.judge_recording(report)

    def judge_server(self, code, report):
        """Its exit code is that of how it ended, by the table of docs/remote.md."""
        sent = {128 + s for s in self.server.sent if s != signal.SIGKILL}
        ended = report["ended"] if report else None
        if signal.SIGKILL in self.server.sent and code in (0, -signal.SIGKILL):
            return
        if code in sent and (ended in ("completed", "stopped") or not ended and self.server.process.said("before the run had begun")):
            return
        if code == 0 and (ended == "completed" or ended == "stopped" and "stop" in self.ordered or not ended and
                          "stop" in self.ordered and self.server.process.said("before the run had begun")):
            return
        if code == 1 and ended == "failed" and self.may_fail(report["why"]):
            return
        raise Failure(f"the server ends with {code}, its run with {ended}: {report and report['why']}; {self.server.process.told()}")

    def may_fail(self, why):
        """Whether what was done lets the run fail with these words."""
        if any(m.role == "host" and signal.SIGKILL in m.sent for m in self.members):
            return True
        expected = [m for m in self.members
                    if m.role == "worker" and m.was_in() and not (self.children and m.process) and not self.came_after_losses(m)]
        struck = self.frozen or all(m.struck for m in expected)
        alone = self.system.alone in ("end", "2") or self.children  # `train` waits for those alone that it has started
        return struck and alone and re.search("all workers are lost|no worker has come|nobody was left", why)

    def came_after_losses(self, member):
        """Whether the server had told of all its losses when it told that this worker has joined."""
        said = [line for _, line in self.server.process.lines]
        last = max((i for i, line in enumerate(said) if line.startswith("lost worker")), default=len(said))
        told = member.process and member.process.said("has joined")
        joined = rf"worker {told[1].split()[1]} has joined from " if told else rf"worker \d+ has joined from process {member.pid}$"
        return any(re.match(joined, line) for line in said[last:])

    def judge_member(self, member, server):
        code, said = member.process.process.returncode, member.process
        allowed = {-s for s in member.sent if s == signal.SIGKILL} | {128 + s for s in member.sent if s != signal.SIGKILL}
        allowed |= {1} if server in (1, -signal.SIGKILL) else {0}
        may_be_done = server == -signal.SIGKILL or self.system.steps != ENDLESS
        if may_be_done and said.said("needs the worker no longer"):
            allowed |= {0}  # it had done its part before the run failed, as it does if another takes the last batch along
        if member.struck or self.frozen or not member.was_in():
            allowed |= {0, 1}  # it may have come too late, or be gone when the run ended
        if code not in allowed:
            raise Failure(f"{member.role} {member.pid} ends with {code}, and the server with {server}: {said.told()}")
        if code == 1 and not said.said("mailgrad: ") and not said.said("the run has failed: "):
            raise Failure(f"{member.role} {member.pid} ends with 1 and does not say why: {said.told()}")

    def judge_losses(self):
        """Nobody is called lost who was neither stopped nor killed, nor heard late by one who was."""
        struck = self.frozen or self.children and any(m.struck for m in self.members)
        if struck or any(m.role == "host" and m.struck for m in self.members):
            return
        for _, line in self.server.process.lines:
            if told := re.search(r"lost worker (\d+) \(incarnation (\d+)\)", line):
                for member in self.members:
                    if not member.struck and member.was(told[1], told[2]):
                        raise Failure(f"{member.pid} lives, and the server says: {line}")

    def judge_report(self, report):
        if report["ended"] != "failed" or not report["lost_shards"]:
            balance(report)
        if report["ended"] == "completed" and self.leg == 1 and not self.frozen and not any(m.struck for m in self.members):
            if report["steps"] != self.system.steps:
                raise Failure(f"completed after {report['steps']} of {self.system.steps} steps")
        if report["steps"] > self.system.steps:
            raise Failure(f"{report['steps']} steps, more than {self.system.steps}")
        if self.repeatable and (partial := [p.name for p in self.scratch.glob("*.partial*")]):
            raise Failure(f"left behind: {partial}")

    def judge_recording(self, report):
        """A recording is repeated with the same bits. One that no resumed run could go on with is there no more."""
        file, again = self.scratch / "run.rec", self.scratch / "again.json"
        if not file.exists() or not self.repeatable or report["ended"] not in ("completed", "stopped"):
            return
        again.unlink(missing_ok=True)
        try:
            done = subprocess.run([self.tool, "replay", str(file), "--quiet", "--report", str(again)], capture_output=True,
                                  text=True, timeout=4 * BOUND_S)
        except subprocess.TimeoutExpired:
            raise Failure("the replay hangs") from None
        if done.returncode != 0 or json.loads(again.read_text())["parameters_sha256"] != report["parameters_sha256"]:
            raise Failure(f"the replay ends with {done.returncode}: {done.stderr}")
        self.tell("replayed with the same bits")

    def whole(self):
        """The story, and what each process said last."""
        lines = [*self.told]
        for member in self.all:
            lines.append(f"{member.role} {member.pid}, exit {member.process.process.poll()}: {member.struck or 'untouched'}")
            lines += [f"    {line}" for _, line in member.process.lines[-8:]]
        return "\n    ".join(lines)

    def close(self):
        for member in [*self.all, *getattr(self, "members", [])]:
            if member.wire:
                member.wire.close()
            if member.process:
                member.process.kill()
            elif member.lives():
                os.kill(member.pid, signal.SIGKILL)


def played(tool, scratch, keys, seed):
    """Whether a story is right, and what it was."""
    scratch.mkdir()
    story = Story(tool, scratch, keys, seed)
    try:
        told, right = story.play(), True
    except Failure as found:
        told, right = f"seed {seed}: {found}\n    {story.whole()}", False
    finally:
        story.close()
    shutil.rmtree(scratch, ignore_errors=True)
    return right, told


def rounds_of(tool, scratch, rounds, draw):
    """The seed of a round is one more than that of the round before it."""
    keys = scratch / "keys"
    subprocess.run([tool, "keys", "new", str(keys)], check=True, capture_output=True)
    write_samples(scratch / "samples.csv", 1000)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        parts = [pool.submit(played, tool, scratch / str(n), keys, draw.seed_given + n) for n in range(rounds)]
        try:
            for part in parts:
                right, told = part.result()
                yield right, True, told
        finally:
            pool.shutdown(cancel_futures=True)
