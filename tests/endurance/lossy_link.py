"""Two networks on one machine and a link between them that delays, loses, repeats and reorders packets.

Each network is a namespace with a TUN device, and a thread copies packets from one device to the other as a seed says.
Neither has a name, so both are gone with this process, however it ends. It takes root, /dev/net/tun and 'ip'.
"""
import ctypes
import fcntl
import heapq
import itertools
import os
import random
import selectors
import shutil
import struct
import subprocess
import threading
import time

from processes import Skipped

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TUN_NO_PI = 0x1001
MOST_PACKET = 1 << 16
QUEUE_S = 0.2  # a packet that would wait longer for its turn is dropped, as a router does


def require_rights():
    if os.geteuid() != 0:
        raise Skipped("takes root, which makes networks")
    if not os.path.exists("/dev/net/tun"):
        raise Skipped("takes /dev/net/tun")
    if missing := [tool for tool in ("ip", "nsenter") if not shutil.which(tool)]:
        raise Skipped(f"takes the program {missing[0]}")


class Side:
    """A network of its own, with one device that leads to the other side."""

    def __init__(self, address, peer):
        self.address = address
        made = threading.Thread(target=self._make)  # since a namespace is that of a thread
        made.start()
        made.join()
        if self.network is None:
            raise Skipped(f"takes a kernel that makes networks: {self.error}")
        self.words = ["nsenter", f"--net=/proc/{os.getpid()}/fd/{self.network}"]
        for command in ("link set lo up", f"address add {address} peer {peer} dev tun0", "link set tun0 up"):
            subprocess.run([*self.words, "ip", *command.split()], check=True)

    def _make(self):
        self.network = None
        try:
            if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "unshare")
            self.device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(self.device, TUNSETIFF, struct.pack("16sH22x", b"tun0", IFF_TUN_NO_PI))
            self.network = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        except OSError as found:
            self.error = found

    def close(self):
        os.close(self.device)
        os.close(self.network)


class Way:
    """One direction of a link. Its faults may be set at any time."""

    def __init__(self, source, target, draw):
        self.source, self.target, self.draw = source, target, draw
        self.delay = self.jitter = 0.0  # seconds; a jitter lets packets overtake each other
        self.loss = self.duplicates = 0.0  # probabilities, of each packet
        self.rate = 0.0  # bytes a second; 0: no limit
        self.cut = False  # everything is lost, and nobody is told
        self.free = 0.0  # when the link has carried what waits for it
        self.carried = self.lost = self.repeated = 0

    def moments(self, length, now):
        """When a packet arrives: never, once or twice."""
        begin = max(now, self.free)
        if self.cut or self.draw.random() < self.loss or begin - now > QUEUE_S:
            self.lost += 1
            return []
        self.free = begin + (length / self.rate if self.rate else 0)
        copies = 2 if self.draw.random() < self.duplicates else 1
        self.carried += 1
        self.repeated += copies - 1
        return [self.free + self.delay + self.draw.random() * self.jitter for _ in range(copies)]


class LossyLink:
    """near.words and far.words begin a command that runs on that side."""

    def __init__(self, seed=1):
        require_rights()
        self.near = Side("10.78.0.1", "10.78.0.2")
        self.far = Side("10.78.0.2", "10.78.0.1")
        draw = random.Random(seed)
        self.out = Way(self.near.device, self.far.device, random.Random(draw.random()))
        self.back = Way(self.far.device, self.near.device, random.Random(draw.random()))
        self.open = True
        self.copier = threading.Thread(target=self._copy, daemon=True)
        self.copier.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.open = False
        self.copier.join()
        self.near.close()
        self.far.close()

    def set(self, **faults):
        """The same faults for both ways."""
        for way in (self.out, self.back):
            for name, value in faults.items():
                setattr(way, name, value)

    def counts(self):
        return "{} packets, {} lost, {} twice".format(
            *(sum(getattr(way, name) for way in (self.out, self.back)) for name in ("carried", "lost", "repeated")))

    def _copy(self):
        under_way, order = [], itertools.count()
        with selectors.DefaultSelector() as looks:
            for way in (self.out, self.back):
                looks.register(way.source, selectors.EVENT_READ, way)
            while self.open:
                now = time.monotonic()
                while under_way and under_way[0][0] <= now:
                    _, _, target, packet = heapq.heappop(under_way)
                    self._put(target, packet)
                left = under_way[0][0] - now if under_way else 0.1
                for key, _ in looks.select(min(left, 0.1)):
                    packet = os.read(key.fd, MOST_PACKET)
                    for moment in key.data.moments(len(packet), time.monotonic()):
                        heapq.heappush(under_way, (moment, next(order), key.data.target, packet))

    @staticmethod
    def _put(target, packet):
        try:
            os.write(target, packet)
        except OSError:
            pass  # a device that takes no more loses it, as a router does
