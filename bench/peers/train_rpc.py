#!/usr/bin/env python3
"""Steps per second of PyTorch with a parameter server over torch.distributed.rpc: a process of its own, and workers.

A worker computes a gradient, sends it by one call, and its answer is the weights after the update, as in PyTorch's
tutorial on parameter servers. Both lie in the memory of one array (`flat`) or of an array for each variable (`each`).
TensorPipe chooses how bytes travel. Prints one line of JSON.
"""

import argparse
import os
import socket
import threading
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TP_SOCKET_IFNAME", "lo")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch  # noqa: E402
import torch.multiprocessing as processes  # noqa: E402
from torch.distributed import rpc  # noqa: E402
from torch.nn import functional  # noqa: E402

import mlp_run  # noqa: E402
import models  # noqa: E402

SHAPES = [shape for i, o in zip(mlp_run.WIDTHS, mlp_run.WIDTHS[1:]) for shape in ((o, i), (o,))]


def first_weights():
    torch.manual_seed(1)
    return [p.detach().clone() for p in models.mlp_model().parameters()]


def parts_of(flat):
    return [part.view(shape) for part, shape in zip(flat.split([torch.Size(s).numel() for s in SHAPES]), SHAPES)]


class Store:
    """Weights and their momentum. `flat`: as one array each, so that an update is three calls."""

    def __init__(self, flat):
        weights = first_weights()
        self.weights = [torch.cat([w.flatten() for w in weights])] if flat else weights
        self.velocities = [torch.zeros_like(w) for w in self.weights]
        self.lock = threading.Lock()

    def update(self, gradients):
        with self.lock, torch.no_grad():
            torch._foreach_mul_(self.velocities, mlp_run.MOMENTUM)
            torch._foreach_add_(self.velocities, gradients)
            torch._foreach_add_(self.weights, self.velocities, alpha=-mlp_run.LEARNING_RATE)
        return self.weights


served = []  # the store of the process that is the server


def push_and_pull(gradients):
    return served[0].update(gradients)


def gradients_of(weights, x, y):
    """Gradients in the form of the weights, and the loss."""
    flat = len(weights) == 1
    parts = [w.requires_grad_() for w in (parts_of(weights[0]) if flat else [w.detach() for w in weights])]
    for i in range(0, len(parts), 2):
        x = functional.linear(x if i == 0 else torch.relu(x), parts[i], parts[i + 1])
    loss = functional.cross_entropy(x, y)
    gradients = torch.autograd.grad(loss, parts)
    return [torch.cat([g.flatten() for g in gradients])] if flat else list(gradients), loss.item()


def train(exchange, options, rank, begin):
    """Steps a second of one worker, and its last losses."""
    torch.manual_seed(rank)
    feed, losses = models.gathered_batches("mlp", options.data), []
    weights = Store(options.form == "flat").weights

    def step():
        nonlocal weights
        gradients, loss = gradients_of(weights, *next(feed))
        weights = exchange(gradients)
        losses.append(loss)

    for _ in range(mlp_run.WARM_UP):
        step()
    begin()
    start, steps = time.perf_counter(), 0
    while time.perf_counter() - start < options.seconds:
        step()
        steps += 1
    return steps / (time.perf_counter() - start), losses[-mlp_run.KEPT:]


def set_up():
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)


def take_part(rank, port, options, barrier, results):
    """Rank 0 is the server, which does nothing but answer."""
    set_up()
    if rank == 0:
        served.append(Store(options.form == "flat"))
    rpc.init_rpc(f"rank{rank}", rank=rank, world_size=options.workers + 1, rpc_backend_options=
                 rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{port}"))
    if rank > 0:
        results.put(train(lambda gradients: rpc.rpc_sync("rank0", push_and_pull, args=(gradients,)), options, rank,
                          barrier.wait))
    rpc.shutdown()


def over_processes(options):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    barrier, results = processes.Barrier(options.workers), processes.SimpleQueue()
    ranks = [processes.Process(target=take_part, args=(rank, port, options, barrier, results))
             for rank in range(options.workers + 1)]
    for rank in ranks:
        rank.start()
    found = [results.get() for _ in range(options.workers)]
    for rank in ranks:
        rank.join()
    return found


def in_one_process(options):
    set_up()
    return [train(Store(options.form == "flat").update, options, 1, lambda: None)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mlp_run.add_arguments(parser)
    parser.add_argument("--form", choices=["flat", "each"], default="each")
    options = parser.parse_args()
    found = over_processes(options) if options.workers else in_one_process(options)
    mlp_run.tell(torch.__version__, sum(rate for rate, _ in found), [loss for _, losses in found for loss in losses])


if __name__ == "__main__":
    processes.set_start_method("spawn")
    main()
