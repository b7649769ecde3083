"""Recordings of runs whose workers are killed, stand still, leave and come late: a replay ends with the same bits."""
import json
import signal
import subprocess
import time

from processes import Failure, Run, end_now

STEPS = 8000
POLICIES = ["sync", "async", "ssp:2", "backup:1", "k-async:2", "dssp:0,3",
            f"async, sync@{STEPS // 3}, ssp:1@{STEPS * 2 // 3}"]
SHARDS = [[], ["--shards", "2"], ["--shards", "2", "--shard-hosts", "2"]]
FROZEN_S = 2.5  # after which a worker is taken for dead


class Guests:
    """Workers of a run that come and go. One always stays."""

    def __init__(self, run, draw):
        self.run, self.draw = run, draw
        self.there = [run.join() for _ in range(2)]
        self.did = []
        self.since = time.monotonic()

    def lasts_long(self):
        """Whether the run still goes on when a worker that stands still comes back."""
        pace = self.run.steps() / (time.monotonic() - self.since)
        return (STEPS - self.run.steps()) > 2 * FROZEN_S * pace

    def victim(self):
        return self.there.pop(self.draw.randrange(len(self.there)))

    def kill(self):
        self.victim().kill()

    def leave(self):
        end_now(self.victim())

    def freeze(self):
        """The worker is lost, and comes back as its next incarnation."""
        frozen, since = self.there[self.draw.randrange(len(self.there))], time.monotonic()
        frozen.signal(signal.SIGSTOP)
        time.sleep(FROZEN_S)
        frozen.signal(signal.SIGCONT)
        try:
            frozen.says(" is back as incarnation ", after=since)
        except Failure:
            if not self.run.ends_within(5):
                raise
            self.there.remove(frozen)  # the others were faster than before, and have trained all steps

    def come(self):
        try:
            self.there.append(self.run.join())
        except Failure:
            if not self.run.ends_within(5):
                raise  # else the others have trained all steps before it was there

    def one_event(self):
        events = [self.come] if len(self.there) < 3 else []
        if len(self.there) > 1:
            events += [self.kill, self.kill, self.leave]
            events += [self.freeze] * ("freeze" not in self.did and self.lasts_long())
        event = self.draw.choice(events)
        event()
        self.did.append(event.__name__)


def recorded(tool, scratch, policy, shards, draw):
    """The report of a run in which workers come and go, and what they did."""
    file = scratch / "run.rec"
    file.unlink(missing_ok=True)
    with Run(tool, scratch, 2, "--policy", policy, *shards, "--seats", "3", "--steps", str(STEPS), "--record",
             str(file)) as run:
        for _ in range(2 if "--shard-hosts" in shards else 0):
            run.start("shard", "--join", run.address)
        guests = Guests(run, draw)
        for number in range(1, 6):
            if run.ends_within(0):
                break
            run.wait_for_steps(STEPS * number // 8)
            time.sleep(draw.uniform(0, 0.02))  # so that a step is anywhere on its way
            if run.steps() < STEPS * 3 // 4:  # or a worker would come when nothing is left
                guests.one_event()
        return run.report(60), guests.did


def rounds_of(tool, scratch, rounds, draw):
    for number in range(rounds):
        policy, shards = POLICIES[number % len(POLICIES)], SHARDS[number % len(SHARDS)]
        was, did = recorded(tool, scratch, policy, shards, draw)
        what = f"{policy} {' '.join(shards)}: {', '.join(did)}"
        if was["ended"] != "completed" or was["steps"] < STEPS - 3:  # whoever goes last may take batches along
            raise Failure(f"{what}: {was['ended']} after {was['steps']} of {STEPS} steps: {was['why']}")
        again = scratch / "again.json"
        again.unlink(missing_ok=True)
        done = subprocess.run([tool, "replay", str(scratch / "run.rec"), "--quiet", "--report", str(again)],
                              capture_output=True, text=True, timeout=120)
        same = done.returncode == 0 and json.loads(again.read_text())["parameters_sha256"] == was["parameters_sha256"]
        yield (same, True, f"{what}: " + ("the same bits" if same else
               f"replay ends with {done.returncode}: {done.stderr.strip()}"))
