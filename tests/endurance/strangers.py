"""R9: connections that are garbage, HTTP, slow, TLS to a plain server, or silent; the training goes on beside them."""
import os
import selectors
import socket
import ssl
import time

from processes import Failure, Run, percentile

WINDOW_S = 2.0
TOGETHER = 40  # at once, so that they take no core from the workers
GONE_S = 2.5  # 2 s, and a tick of both clocks
MOST_BYTES = 64 << 10  # of memory, a connection


def client_hello():
    """The first bytes of a client that speaks TLS."""
    come, go = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        ssl.create_default_context().wrap_bio(come, go, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return go.read()


def greetings(draw):
    """What strangers say first; the slow one says a byte of it each 100 ms."""
    return {"garbage": draw.randbytes(512), "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "TLS": client_hello(), "silence": b"", "slow": b"\0" * 64}


def pss_of(process):
    with open(f"/proc/{process.process.pid}/smaps_rollup") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))


def pace(run, seconds):
    """Steps a second, between two lines of the metrics."""
    first = run.lines()[-1]
    time.sleep(seconds)
    last = run.lines()[-1]
    if last["steps"] <= first["steps"]:
        raise Failure(f"no step for {seconds:g} s: {run.server.told()}")
    return (last["steps"] - first["steps"]) / (last["time_s"] - first["time_s"])


def visit(address, draw):
    """Connects with all of them, and returns how long the last one was let live."""
    host, port = address.rsplit(":", 1)
    texts = greetings(draw)
    open_ones, slow, last = {}, {}, 0.0
    with selectors.DefaultSelector() as looks:
        for number in range(TOGETHER):
            kind = list(texts)[number % len(texts)]
            s = socket.create_connection((host, int(port)))
            s.setblocking(False)
            open_ones[s] = time.monotonic()
            looks.register(s, selectors.EVENT_READ, kind)
            if kind == "slow":
                slow[s] = texts[kind]
            elif texts[kind]:
                s.send(texts[kind])
        while open_ones:
            for key, _ in looks.select(0.1):
                try:
                    if key.fileobj.recv(65536):
                        continue
                except OSError:
                    pass  # reset
                last = max(last, time.monotonic() - open_ones.pop(key.fileobj))
                looks.unregister(key.fileobj)
                key.fileobj.close()
            for s in list(slow):
                try:
                    if s in open_ones and slow[s]:
                        s.send(slow[s][:1])
                        slow[s] = slow[s][1:]
                except OSError:
                    pass
            if open_ones and time.monotonic() - min(open_ones.values()) > 3 * GONE_S:
                raise Failure(f"{len(open_ones)} of {TOGETHER} strangers are still there after {3 * GONE_S:g} s")
    return last


def rounds_of(tool, scratch, rounds, draw):
    """R9."""
    paces = []
    with Run(tool, scratch, 2, "--steps", "100000000") as run:
        for _ in range(2):
            run.join()
        run.wait_for_steps(100)
        begin = pss_of(run.server)
        for _ in range(rounds):
            alone = pace(run, WINDOW_S)
            first = run.lines()[-1]
            lived = visit(run.address, draw)
            time.sleep(0.2)  # until the metrics have a line
            last = run.lines()[-1]
            beside = (last["steps"] - first["steps"]) / (last["time_s"] - first["time_s"])
            paces.append(beside / alone)
            grown = pss_of(run.server) - begin
            yield (grown <= TOGETHER * MOST_BYTES, lived <= GONE_S,
                   f"{TOGETHER} strangers, the last gone after {lived:.2f} s, training at {100 * paces[-1]:.0f} %, "
                   f"server {grown / 1024:+.0f} KiB")
        run.stop()
        run.report()
    median = percentile(paces, 0.5)
    yield True, median >= 0.95, f"training keeps 95 %: median {100 * median:.0f} %"
