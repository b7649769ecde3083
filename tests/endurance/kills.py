"""R2 and R3: workers are killed with kill -9 or stand still, and the others go on."""
import signal
import time

from processes import Failure, Run, percentile

POLICIES = ["async", "sync", "ssp:2", "k-async:2", "backup:1"]
STEPS = 3000  # before, between and after the kills, so many that the model is as good as it gets
ENDLESS = 100_000_000  # a run that cannot end before its workers are killed, however quick the machine is
WATCHED_S = 1.0
GO_ON_S = 0.35  # 250 ms, and the time after which a worker tells of its steps


def longest_pause(lines):
    """The longest time in which no step was counted."""
    pause, since, steps = 0.0, lines[0]["time_s"], lines[0]["steps"]
    for line in lines[1:]:
        pause = max(pause, line["time_s"] - since)
        if line["steps"] > steps:
            since, steps = line["time_s"], line["steps"]
    return pause


def trained(tool, scratch, policy, victims, draw):
    """A run of three workers of which some are killed; its report, and the longest pause of the others."""
    with Run(tool, scratch, 3, "--policy", policy, "--steps", str(ENDLESS), rate="0.02") as run:
        workers = [run.join() for _ in range(3)]
        pause = 0.0
        for victim in range(victims):
            run.wait_for_steps(run.steps() + STEPS // 10 + draw.randrange(STEPS))
            before = run.lines()[-1]
            workers[victim].kill()
            if draw.random() < 0.5:
                run.start("join", run.address)  # which may come too late, on a machine that has no time for it
            run.wait_for_time(before["time_s"] + WATCHED_S)
            run.wait_for_steps(before["steps"] + 1)  # those that were under way, or later ones
            pause = max(pause, longest_pause([x for x in run.lines() if x["time_s"] >= before["time_s"]]))
        run.wait_for_steps(run.steps() + STEPS)
        run.stop()
        return run.report(60), pause


def kill_rounds(tool, scratch, rounds, draw):
    """R2."""
    whole = {}
    for number in range(rounds):
        policy = draw.choice(POLICIES)
        if policy not in whole:
            whole[policy] = trained(tool, scratch, policy, 0, draw)[0]["test_accuracy"]
        victims = draw.randint(1, 2)
        report, pause = trained(tool, scratch, policy, victims, draw)
        if report["ended"] != "stopped":
            raise Failure(f"{policy}: {report['ended']} after {report['steps']} steps: {report['why']}")
        off = report["test_accuracy"] - whole[policy]
        yield (abs(off) <= 0.02, pause <= GO_ON_S,
               f"{policy}, {victims} killed, {report['ledger']['lost']} gradients lost, accuracy {off:+.4f}, "
               f"longest pause {pause * 1000:.0f} ms")


def notice_rounds(tool, scratch, rounds, draw):
    """R3."""
    killed, stopped = [], []
    with Run(tool, scratch, 2, "--steps", "100000000") as run:
        run.join("--number", "0")
        for number in range(rounds):
            worker = run.join("--number", "1", "--rejoin", "no")
            run.wait_for_steps(run.steps() + 20)
            freeze = number % 3 == 2
            since = time.monotonic()
            worker.signal(signal.SIGSTOP if freeze else signal.SIGKILL)
            moment, line = run.server.says("lost worker 1", after=since)
            took = moment - since
            (stopped if freeze else killed).append(took)
            worker.kill()
            limit = 2.0 if freeze else 0.1
            yield True, took <= limit, f"{'SIGSTOP' if freeze else 'kill -9'} noticed after {took * 1000:.0f} ms"
        run.stop()
        run.report()
    for name, all_of in (("kill -9", killed), ("SIGSTOP", stopped)):
        if all_of:
            print(f"  {name}: median {percentile(all_of, 0.5) * 1000:.0f} ms, p99 {percentile(all_of, 0.99) * 1000:.0f} ms")
