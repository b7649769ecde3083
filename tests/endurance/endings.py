"""R11: Ctrl-C at the server and a server that is killed: everybody is gone within 3 s, and nothing stays behind."""
import os
import signal
import time

from processes import Failure, Process, Run, children_of

LIMIT_S = 3.0
KINDS = ["Ctrl-C at serve", "kill -9 of serve", "Ctrl-C at train", "kill -9 of train"]


def of_address(address):
    """Processes of this run, by their command lines."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            with open(f"/proc/{entry}/stat") as file:
                state = file.read().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if b"join" in words and address.encode() in words and state != "Z":
            found.append(int(entry))
    return found


def wait_until_gone(address, since):
    while of_address(address):
        if time.monotonic() - since > 2 * LIMIT_S:
            raise Failure(f"still there after {2 * LIMIT_S:g} s: {of_address(address)}")
        time.sleep(0.01)


def end_of_serve(tool, scratch, kill):
    with Run(tool, scratch, 3, "--steps", "100000000") as run:
        workers = [run.join() for _ in range(3)]
        run.wait_for_steps(50)
        since = time.monotonic()
        run.server.signal(signal.SIGKILL if kill else signal.SIGINT)
        codes = [p.ends(2 * LIMIT_S) for p in (run.server, *workers)]
        took = time.monotonic() - since
        expected = [-signal.SIGKILL, 1, 1, 1] if kill else [128 + signal.SIGINT, 0, 0, 0]
        if codes != expected:
            raise Failure(f"expected exit codes {expected}, found {codes}: {workers[0].told()}")
        if not kill:
            run.report()
        return took


def end_of_train(tool, scratch, kill):
    with Run(tool, scratch, 1) as none:  # for its samples
        data = scratch / "samples.csv"
        none.server.kill()
    report = scratch / "report of train.json"
    report.unlink(missing_ok=True)
    train = Process(str(tool), "train", "--processes", "3", "--optimizer", "sgd", "--model", "mlp:hidden=16", "--data", str(data),
                    "--batch", "8", "--steps", "100000000", "--report", str(report))
    try:
        for worker in range(3):  # they come in any order, and one that is not there yet tries for 10 s
            train.says(f"worker {worker} has joined")
        child = children_of(train.process.pid)[0]
        with open(f"/proc/{child}/cmdline", "rb") as file:
            address = file.read().split(b"\0")[2].decode()
        since = time.monotonic()
        train.signal(signal.SIGKILL if kill else signal.SIGINT)
        code = train.ends(2 * LIMIT_S)
        wait_until_gone(address, since)
        took = time.monotonic() - since
    finally:
        train.kill()
    if code != (-signal.SIGKILL if kill else 128 + signal.SIGINT) or (not kill and not report.exists()):
        raise Failure(f"exit code {code}, report {'there' if report.exists() else 'missing'}")
    return took


def rounds_of(tool, scratch, rounds, draw):
    """R11."""
    for number in range(rounds):
        kind = KINDS[number % len(KINDS)]
        before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
        took = (end_of_serve if "serve" in kind else end_of_train)(tool, scratch, "kill" in kind)
        left = {n for n in os.listdir("/dev/shm")} - before if os.path.isdir("/dev/shm") else set()
        left = {n for n in left if "mailgrad" in n}
        yield not left, took <= LIMIT_S, f"{kind}: all gone after {took * 1000:.0f} ms"
