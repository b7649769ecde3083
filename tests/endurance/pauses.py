"""R5 and R6: a worker stands still, or its connection is cut without a word, for 0.2 to 10 s."""
import signal
import socket
import threading
import time

from processes import Failure, Run

SPANS = [0.2, 0.5, 0.9, 2.2, 3.0, 5.0, 0.7, 2.5, 10.0]


class Wire:
    """Carries connections to a server, until it is cut: then bytes wait, and nobody is told."""

    def __init__(self, server):
        host, port = server.rsplit(":", 1)
        self.server = (host, int(port))
        self.open = threading.Event()
        self.open.set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._carry_both, args=(near,), daemon=True).start()

    def _carry_both(self, near):
        self.open.wait()
        try:
            far = socket.create_connection(self.server)
        except OSError:
            return near.close()
        for one, other in ((near, far), (far, near)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, source, target):
        try:
            while data := source.recv(65536):
                self.open.wait()
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.open.set()
        self.listener.close()


def one_pause(run, worker, wire, span):
    """Whether all is as promised, whether in time, and the figure."""
    run.wait_for_steps(run.steps() + 20)
    since = time.monotonic()
    wire.open.clear() if wire else worker.signal(signal.SIGSTOP)
    time.sleep(span)
    woken = time.monotonic()
    wire.open.set() if wire else worker.signal(signal.SIGCONT)
    what = f"{'cut' if wire else 'SIGSTOP'} for {span:g} s"
    if span < 1:
        time.sleep(0.5)
        lost = run.server.said("lost worker 1", since)
        return not lost, True, f"{what}: {'lost' if lost else 'nothing lost'}"
    run.server.says("lost worker 1", after=since)
    moment, line = worker.says(" is back as incarnation ", within=10, after=since)
    took = moment - woken
    return True, took <= 1, f"{what}: {line.split(': ')[-1]} after {took * 1000:.0f} ms"


def rounds_of(tool, scratch, rounds, draw):
    """R5 and R6 in turns."""
    with Run(tool, scratch, 2, "--steps", "100000000") as run:
        run.join("--number", "0")
        wire = Wire(run.address)
        frozen = run.join("--number", "1")
        try:
            for number in range(rounds):
                if number == rounds // 2:  # the worker behind the wire takes the place of the other one
                    frozen.signal(signal.SIGINT)
                    frozen.ends()
                    behind = run.join("--number", "1", address=wire.address)
                half = number if number < rounds // 2 else number - rounds // 2
                span = SPANS[half % len(SPANS)]
                yield (one_pause(run, frozen, None, span) if number < rounds // 2
                       else one_pause(run, behind, wire, span))
            run.stop()
            report = run.report()
        finally:
            wire.close()
    if report["ended"] != "stopped":
        raise Failure(f"the run {report['ended']}: {report['why']}")
    print(f"  ledger: {report['ledger']}")
