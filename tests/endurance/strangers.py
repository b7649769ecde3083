"""R9: connections that are garbage, HTTP, slow, silent, TLS to a plain server or plain to one with keys.

The training goes on beside them.
"""
import selectors
import socket
import ssl
import subprocess
import time

from memory import pss_of
from processes import Failure, Process, Run, percentile

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


def plain_hello(tool):
    """The first bytes of a worker without keys: a hello that a server without keys would answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        worker = Process(tool, "join", f"127.0.0.1:{listener.getsockname()[1]}")
        try:
            with listener.accept()[0] as heard:
                heard.settimeout(10)
                return heard.recv(65536)
        except TimeoutError:
            raise Failure(f"a worker says nothing within 10 s: {worker.told()}") from None
        finally:
            worker.kill()


def greetings(draw):
    """What strangers say first; the slow one says a byte of it each 100 ms."""
    return {"garbage": draw.randbytes(512), "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "TLS": client_hello(), "silence": b"", "slow": b"\0" * 64}


def pace(run, seconds):
    """Steps a second, between two lines of the metrics."""
    first = run.lines()[-1]
    time.sleep(seconds)
    last = run.lines()[-1]
    if last["steps"] <= first["steps"]:
        raise Failure(f"no step for {seconds:g} s: {run.server.told()}")
    return (last["steps"] - first["steps"]) / (last["time_s"] - first["time_s"])


def visit(address, texts):
    """Connects with all of them, and returns how long the last one was let live. `texts`: what each kind says."""
    host, port = address.rsplit(":", 1)
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


def beside_strangers(run, texts, paces, begin):
    """A round: whether it is right, whether in time, and its figure. Adds to `paces`."""
    alone = pace(run, WINDOW_S)
    first = run.lines()[-1]
    lived = visit(run.address, texts)
    time.sleep(0.2)  # until the metrics have a line
    last = run.lines()[-1]
    paces.append((last["steps"] - first["steps"]) / (last["time_s"] - first["time_s"]) / alone)
    grown = pss_of(run.server) - begin
    return (grown <= TOGETHER * MOST_BYTES, lived <= GONE_S,
            f"{TOGETHER} strangers at a server {'with' if run.keys else 'without'} keys, the last gone after {lived:.2f} s, "
            f"training at {100 * paces[-1]:.0f} %, server {grown / 1024:+.0f} KiB")


def rounds_at(token, plain, tool, scratch, rounds, draw):
    """At one server, without keys or with this token. `plain`: the hello of a worker without keys."""
    paces = []
    with Run(tool, scratch, 2, "--steps", "100000000", keys=token) as run:
        for _ in range(2):
            run.join()
        run.wait_for_steps(100)
        begin = pss_of(run.server)
        for _ in range(rounds):
            yield beside_strangers(run, greetings(draw) | ({"plain": plain} if token else {}), paces, begin)
        run.stop()
        run.report()
    median = percentile(paces, 0.5)
    yield (True, median >= 0.95,
           f"training at a server {'with' if token else 'without'} keys keeps 95 %: median {100 * median:.0f} %")


def rounds_of(tool, scratch, rounds, draw):
    """R9: the first half of the rounds at a server without keys, the others at one with keys."""
    keys = scratch / "keys"
    subprocess.run([tool, "keys", "new", str(keys)], check=True, capture_output=True)
    plain = plain_hello(tool)
    for token, count in ((None, (rounds + 1) // 2), (keys / "token", rounds // 2)):
        if count > 0:
            yield from rounds_at(token, plain, tool, scratch, count, draw)
