"""R2 and R3: workers are killed with kill -9 or stand still, and the others go on."""
import signal
import time

from processes import Failure, Run, percentile

POLICIES = ["async", "sync", "ssp:2", "k-async:2", "backup:1"]
STEPS = 1500  # so many that a late kill on a busy machine is still far from the end
GO_ON_S = 0.35  # 250 ms, and the time after which a worker tells of its steps


def trained(tool, scratch, policy, victims, draw):
    """A run of three workers of which some are killed; its report, and the longest pause of the others."""
    with Run(tool, scratch, 3, "--policy", policy, "--steps", str(STEPS)) as run:
        workers = [run.join() for _ in range(3)]
        pause = 0.0
        for victim in range(victims):
            run.wait_for_steps(STEPS * (victim + 1) // (victims + 2) + draw.randrange(STEPS // 10))
            before = run.lines()[-1]["time_s"]
            workers[victim].kill()
            if draw.random() < 0.5:
                run.start("join", run.address)  # which may come too late, on a machine that has no time for it
            run.wait_for_steps(min(STEPS, run.steps() + STEPS // 10))
            moments = [x["time_s"] for x in run.lines() if before <= x["time_s"] <= before + 2]
            pause = max([pause] + [b - a for a, b in zip(moments, moments[1:])])
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
        if report["ended"] != "completed" or report["steps"] < STEPS:
            raise Failure(f"{policy}: {report['ended']} after {report['steps']} of {STEPS} steps: {report['why']}")
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
