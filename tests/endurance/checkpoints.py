"""Runs that keep checkpoints are killed, again and again, and resumed.

A round begins a run, kills it with SIGKILL after a time drawn from its length, resumes it, kills that too, and lets the
last one end. It fails if a run cannot be resumed, a checkpoint is torn, a mini-batch is trained twice or not at all, or the weights of a
run whose bits do not depend on chance are others than without interruption. Some of the runs are recorded: what the killed
ones and the last one recorded is one recording, whose replay must end with the weights of the last. A recording may be lost where a
worker had left before the checkpoint, but most must be repeated.
"""
import json
import subprocess
import time

from processes import Failure, stated, write_samples

EXACT = [["--devices", "cpu:0,cpu:0", "--policy", "sync", "--shards", "2"],
         ["--optimizer", "adam", "--shards", "2"],
         ["--local-steps", "3", "--optimizer", "adam"],
         ["--cure", "dana-zero", "--lr", "0.01"],
         ["--policy", "hogwild", "--optimizer", "adam"],
         ["--processes", "2", "--policy", "sync", "--local-steps", "2"],
         ["--policy", "async, hogwild@9000, ssp:1@18000", "--shards", "2"]]
FREE = [["--devices", "cpu:0,cpu:0", "--policy", "async", "--shards", "2"],
        ["--devices", "cpu:0,cpu:0,cpu:0", "--policy", "k-async:2", "--shards", "2"],
        ["--devices", "cpu:0,cpu:0", "--policy", "ssp:1, sync@9000, async@18000"],
        ["--devices", "cpu:0,cpu:0", "--policy", "hogwild"],
        ["--devices", "cpu:0,cpu:0", "--policy", "hogwild, sync@9000, hogwild@18000", "--shards", "2"]]
STEPS = 30000


def finished(command, report):
    """The report of a run that ends by itself."""
    done = subprocess.run(command + ["--report", str(report)], capture_output=True, text=True)
    if done.returncode != 0 or "no newer checkpoint can be read" in done.stderr:
        raise Failure(f"{' '.join(command)}\nended with {done.returncode}: {done.stderr}")
    return json.loads(report.read_text())


def killed(command, seconds):
    """Whether the run was killed before its end; a run that fails by itself is the end of the proof."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(seconds)
    process.kill()
    told = process.stderr.read()
    if process.wait() not in (0, -9) or "no newer checkpoint can be read" in told:
        raise Failure(f"{' '.join(command)}\nended with {process.returncode}: {told}")
    return process.returncode == -9


def repeat(tool, recording):
    """Replays a recording, which must end with the weights of its run."""
    done = subprocess.run([tool, "replay", str(recording), "--quiet"], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"the replay of {recording} ended with {done.returncode}: {done.stderr}")


def rounds_of(tool, scratch, rounds, draw):
    data = scratch / "samples.csv"
    write_samples(data, 400)
    run = [tool, "train", "--model", "mlp:hidden=16", "--data", str(data), "--batch", "8", "--steps", str(STEPS),
           "--quiet"]
    whole, lengths = {}, {}
    recorded = replayed = 0
    for number in range(rounds):
        drawn = draw.choice(EXACT + FREE)
        options = stated(drawn)
        key = " ".join(options)
        if key not in whole:
            begun = time.monotonic()
            whole[key] = finished(run + options, scratch / "whole.json")
            lengths[key] = time.monotonic() - begun
        kept = scratch / f"kept {number}"
        command = run + options + ["--checkpoint", str(kept), "--checkpoint-every", draw.choice(["50", "500", "1s"])]
        recording = scratch / f"run {number}.rec"
        if "hogwild" not in key and draw.random() < 0.5:
            command += ["--record", str(recording)]
            recorded += 1
        kills = 0
        for _ in range(draw.randint(1, 4)):
            kills += killed(command, draw.uniform(0, lengths[key]))
            if kept.is_dir() and any(kept.glob("checkpoint-*.safetensors")):
                command = [tool, "train", "--resume", str(kept), "--same-outputs", "--quiet"]
                if "--processes" in options and draw.random() < 0.7:
                    command += ["--processes", "2"]  # else it goes on in one
        last = finished(command, scratch / "report.json")
        counted = last["ledger"]["produced"] if "--local-steps" not in options else last["steps"]
        if last["steps"] != STEPS or counted != STEPS:
            raise Failure(f"{options}: {last['steps']} steps, {counted} gradients")
        if drawn in EXACT:
            if last["parameters_sha256"] != whole[key]["parameters_sha256"]:
                raise Failure(f"{options}: other weights than without interruption")
        repeated = recording.exists()  # not if a run was killed between its last checkpoint and the end of its recording
        if repeated:
            repeat(tool, recording)
            replayed += 1
        if recorded >= 10 and 2 * replayed < recorded:
            raise Failure(f"only {replayed} of {recorded} recordings went on")
        for file in [*kept.glob("*"), *scratch.glob("*.rec*")]:
            file.unlink()
        yield True, True, f"{' '.join(options)}: {kills} times killed and resumed" + (", and replayed" if repeated else "")
