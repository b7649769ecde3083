"""Predictions a second of PyTorch's MLP 784-512-256-10 on one core: single pictures, and batches of 256.

    predict.py [IDX.gz]     eager, under inference_mode; the pictures are bytes' values that are divided by 255: those
                            of the IDX file (by default the test pictures of Fashion-MNIST), and some without a 0
"""

import gzip
import sys
import time

import torch

torch.set_num_threads(1)
model = torch.nn.Sequential(
    torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)
).eval()


@torch.inference_mode()
def rate(pictures, count, seconds=0.5):
    batches = pictures.split(count)
    for i in range(50):
        model(batches[i % len(batches)] / 255)
    begin, done = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        for i in range(16):
            model(batches[(done // count + i) % len(batches)] / 255)
        done += 16 * count
    return done / (time.perf_counter() - begin)


def real_pictures(path, count):
    with gzip.open(path) as file:
        file.seek(16)
        values = bytearray(file.read(count * 784))
    return torch.frombuffer(values, dtype=torch.uint8).reshape(count, 784).float()


path = sys.argv[1] if len(sys.argv) > 1 else "/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz"
for name, pictures in (
    ("pictures of Fashion-MNIST", real_pictures(path, 2048)),
    ("pictures without a 0", torch.full((2048, 784), 100.0)),
):
    for count in (1, 256):
        rates = sorted(rate(pictures, count) for _ in range(9))
        print(f"{name}, {count} at a time: {rates[4]:.4g} a second, PyTorch {torch.__version__}")
