"""Predictions a second of PyTorch's MLP 784-512-256-10 on one core: single pictures, and batches of 256.

    predict.py          eager, under inference_mode; the pictures are bytes' values that are divided by 255
"""

import time

import torch

torch.set_num_threads(1)
model = torch.nn.Sequential(
    torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)
).eval()


@torch.inference_mode()
def rate(count, seconds=0.5):
    pictures = torch.full((count, 784), 100.0)
    for _ in range(50):
        model(pictures / 255)
    begin, done = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        for _ in range(16):
            model(pictures / 255)
        done += 16 * count
    return done / (time.perf_counter() - begin)


for count in (1, 256):
    rates = sorted(rate(count) for _ in range(9))
    print(f"pictures, {count} at a time: {rates[4]:.4g} a second, PyTorch {torch.__version__}")
