#!/usr/bin/env python3
"""Steps per second of PyTorch on one thread: on Fashion-MNIST, batch 64, on a text, 16 windows, or on categories of
recommender.py.

Prints one line: steps per second, then the variant. `--variant best` tries them all first.
"""

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402  (reads the number of threads when it loads)

import measuring  # noqa: E402
import models  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=models.MODELS, default="mlp")
    parser.add_argument("--optimizer", choices=["sgd", "momentum", "adagrad", "adam", "adamw"],
                        default="momentum")
    parser.add_argument("--data", default=models.FASHION_MNIST, help="for gpt a text")
    measuring.add_arguments(parser, "such as fused or foreach+channels_last")
    options = parser.parse_args()

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    measuring.report(options, models.variants(options.model, options.optimizer),
                     lambda variant: models.make_step(options.model, options.optimizer, variant),
                     lambda variant: models.batches(options.model, options.data, options.feeding,
                                                    "channels_last" in variant))


if __name__ == "__main__":
    main()
