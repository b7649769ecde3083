#!/usr/bin/env python3
"""Steps per second of PyTorch on one thread: on Fashion-MNIST, batch 64, on a text, 16 windows, or on categories of
recommender.py.

Prints one line: steps per second, then the variant. `--variant best` tries them all first.
"""

import argparse
import itertools
import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402  (reads the number of threads when it loads)

import models  # noqa: E402


def measure(step, feed, warm_up, seconds):
    for x, y in itertools.islice(feed, warm_up):
        step(x, y)
    begin = time.perf_counter()
    steps = 0
    while True:
        for x, y in itertools.islice(feed, 10):
            step(x, y)
        steps += 10
        elapsed = time.perf_counter() - begin
        if elapsed >= seconds:
            return steps / elapsed


def try_variant(options, variant, seconds):
    """Steps per second, or None where this PyTorch cannot do it."""
    feed = models.batches(options.model, options.data, options.feeding, "channels_last" in variant)
    try:
        return measure(models.make_step(options.model, options.optimizer, variant), feed, 20, seconds)
    except Exception as why:  # whatever an optional feature may throw
        print(f"{variant}: {str(why).splitlines()[0][:100] if str(why) else type(why).__name__}", file=sys.stderr)
        return None


def fastest_variant(options):
    tried = {}
    for variant in models.variants(options.model, options.optimizer):
        rate = try_variant(options, variant, 1.0)
        if rate is not None:
            tried[variant] = rate
            print(f"{variant}: {rate:.1f} steps/s", file=sys.stderr)
    return max(tried, key=tried.get)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=models.MODELS, default="mlp")
    parser.add_argument("--optimizer", choices=["sgd", "momentum", "adagrad", "adam", "adamw"],
                        default="momentum")
    parser.add_argument("--variant", default="best", help="such as fused or foreach+channels_last")
    parser.add_argument("--feeding", choices=["ready", "gathered"], default="ready")
    parser.add_argument("--data", default=models.FASHION_MNIST, help="for gpt a text")
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    variant = fastest_variant(options) if options.variant == "best" else options.variant
    rate = try_variant(options, variant, options.seconds)
    if rate is None:
        sys.exit(2)
    print(f"{rate:.2f} {variant}")


if __name__ == "__main__":
    main()
