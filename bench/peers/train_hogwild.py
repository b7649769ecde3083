#!/usr/bin/env python3
"""Updates per second of PyTorch's Hogwild: processes that share one model and each run their own optimiser.

Prints one line: updates per second of all processes together, then the variant.
"""

import argparse
import itertools
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
import torch.multiprocessing as processes  # noqa: E402

import models  # noqa: E402


def work(rank, model, options, barrier, rates):
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(rank)
    feed = models.batches(options.model, options.data, options.feeding)
    update, *_ = options.variant.split("+")
    if update == "functional":
        step = models.functional_step(options.optimizer, model)
    else:
        step = models.optimizer_step(model, models.make_optimizer(options.optimizer, model.parameters(), update))
    for x, y in itertools.islice(feed, 20):
        step(x, y)
    barrier.wait()
    begin = time.perf_counter()
    steps = 0
    while time.perf_counter() - begin < options.seconds:
        step(*next(feed))
        steps += 1
    rates.put(steps / (time.perf_counter() - begin))


def measure(options):
    torch.manual_seed(1)
    model = models.MODELS[options.model]()
    model.share_memory()
    barrier, rates = processes.Barrier(options.processes), processes.SimpleQueue()
    workers = [processes.Process(target=work, args=(rank, model, options, barrier, rates))
               for rank in range(options.processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(rates.get() for _ in workers)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=models.MODELS, default="mlp")
    parser.add_argument("--optimizer", choices=["sgd", "momentum", "adam"], default="momentum")
    parser.add_argument("--variant", default="foreach", help="loop, foreach, fused or functional")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--feeding", choices=["ready", "gathered"], default="ready")
    parser.add_argument("--data", default=models.FASHION_MNIST)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    print(f"{measure(options):.2f} {options.variant}")


if __name__ == "__main__":
    processes.set_start_method("spawn")
    main()
