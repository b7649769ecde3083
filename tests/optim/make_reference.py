#!/usr/bin/env python3
"""Writes trajectories.inc: the weights that PyTorch's optimisers reach within 100 steps on a small problem.

    python3 tests/optim/make_reference.py > tests/optim/trajectories.inc

Needs PyTorch (written with 2.x); the tests need only the numbers. The problem is that of trajectory_test.cpp.
PyTorch computes in float64 here, so that the numbers hold no rounding but their own.
"""
import math

import torch
from torch.optim import SGD, Adagrad, Adam, AdamW, RMSprop, SparseAdam
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR, StepLR

WEIGHTS = 17
ROWS, WIDTH = 6, 3
RECORDED = (1, 2, 10, 100)


def start(n):
    return torch.tensor([(i - 8) / 8 for i in range(n)], dtype=torch.float64)


def gradient_of(i, w, step):
    slope = 0.5 + (i % 5) / 4
    centre = (i % 3 - 1) / 2
    noise = ((i * 7 + step * 13) % 11 - 5) / 16
    return slope * (w - centre) + noise


def dense_gradient(w, step):
    return torch.stack([gradient_of(i, x, step) for i, x in enumerate(w.detach())])


def sparse_gradient(table, step):
    rows = [step % ROWS, (2 * step + 1) % ROWS, step % ROWS]
    values = [[gradient_of(r * WIDTH + c, table.detach()[r, c], step + j) for c in range(WIDTH)]
              for j, r in enumerate(rows)]
    return torch.sparse_coo_tensor([rows], torch.tensor(values, dtype=torch.float64), (ROWS, WIDTH))


def constant(optimizer):
    return None


def cosine_after_warmup(optimizer, total, warmup):
    rise = LinearLR(optimizer, start_factor=1 / warmup, total_iters=warmup - 1)
    fall = CosineAnnealingLR(optimizer, T_max=total - warmup)
    return SequentialLR(optimizer, [rise, fall], milestones=[warmup])


def trajectory(w, gradient, optimizer, schedule=constant, clip=0):
    scheduler = schedule(optimizer)
    recorded = []
    for step in range(1, max(RECORDED) + 1):
        w.grad = gradient(w, step)
        if clip:
            torch.nn.utils.clip_grad_norm_([w], clip)
        optimizer.step()
        if scheduler:
            scheduler.step()
        if step in RECORDED:
            recorded.append(w.detach().flatten().tolist())
    return recorded


def run(make, sparse=False, **options):
    w = start(ROWS * WIDTH).reshape(ROWS, WIDTH) if sparse else start(WEIGHTS)
    w.requires_grad_()
    return trajectory(w, sparse_gradient if sparse else dense_gradient, make([w]), **options)


# name, then what trajectory_test.cpp sets: rule, learning rate, l2, weight decay (negative: the rule's own),
# clip norm, schedule; last, the same in PyTorch.
DENSE = [
    ("sgd", "sgd", 0.05, 0, -1, 0, "constant", lambda w: SGD(w, lr=0.05), {}),
    ("sgd_l2", "sgd", 0.05, 0.1, -1, 0, "constant", lambda w: SGD(w, lr=0.05, weight_decay=0.1), {}),
    ("momentum", "momentum", 0.02, 0, -1, 0, "constant", lambda w: SGD(w, lr=0.02, momentum=0.9), {}),
    ("momentum_l2", "momentum:momentum=0.8", 0.02, 0.05, -1, 0, "constant",
     lambda w: SGD(w, lr=0.02, momentum=0.8, weight_decay=0.05), {}),
    ("nesterov", "nesterov", 0.02, 0, -1, 0, "constant", lambda w: SGD(w, lr=0.02, momentum=0.9, nesterov=True), {}),
    ("nesterov_l2", "nesterov", 0.02, 0.05, -1, 0, "constant",
     lambda w: SGD(w, lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.05), {}),
    ("adagrad", "adagrad", 0.1, 0, -1, 0, "constant", lambda w: Adagrad(w, lr=0.1), {}),
    ("adagrad_l2_initial", "adagrad:initial_sum=0.5", 0.1, 0.1, -1, 0, "constant",
     lambda w: Adagrad(w, lr=0.1, weight_decay=0.1, initial_accumulator_value=0.5), {}),
    ("rmsprop", "rmsprop", 0.01, 0, -1, 0, "constant", lambda w: RMSprop(w, lr=0.01), {}),
    ("rmsprop_l2", "rmsprop:alpha=0.9,epsilon=1e-4", 0.01, 0.1, -1, 0, "constant",
     lambda w: RMSprop(w, lr=0.01, alpha=0.9, eps=1e-4, weight_decay=0.1), {}),
    ("adam", "adam", 0.02, 0, -1, 0, "constant", lambda w: Adam(w, lr=0.02), {}),
    ("adam_l2", "adam:beta1=0.8,beta2=0.99,epsilon=1e-3", 0.02, 0.1, -1, 0, "constant",
     lambda w: Adam(w, lr=0.02, betas=(0.8, 0.99), eps=1e-3, weight_decay=0.1), {}),
    ("adamw", "adamw", 0.02, 0, -1, 0, "constant", lambda w: AdamW(w, lr=0.02), {}),
    ("adamw_decay", "adamw", 0.02, 0, 0.3, 0, "constant", lambda w: AdamW(w, lr=0.02, weight_decay=0.3), {}),
    ("sgd_clipped", "sgd", 0.05, 0, -1, 1.5, "constant", lambda w: SGD(w, lr=0.05), {"clip": 1.5}),
    ("adam_clipped", "adam", 0.02, 0, -1, 1.5, "constant", lambda w: Adam(w, lr=0.02), {"clip": 1.5}),
    ("sgd_by_steps", "sgd", 0.1, 0, -1, 0, "step:every=20,factor=0.5", lambda w: SGD(w, lr=0.1),
     {"schedule": lambda o: StepLR(o, step_size=20, gamma=0.5)}),
    ("momentum_cosine", "momentum", 0.05, 0, -1, 0, "cosine:total=100", lambda w: SGD(w, lr=0.05, momentum=0.9),
     {"schedule": lambda o: CosineAnnealingLR(o, T_max=100)}),
    ("adamw_warm_cosine", "adamw", 0.05, 0, -1, 0, "cosine:total=120,warmup=10", lambda w: AdamW(w, lr=0.05),
     {"schedule": lambda o: cosine_after_warmup(o, 120, 10)}),
]
SPARSE = [
    ("sparse_sgd", "sgd", 0.05, 0, -1, 0, "constant", lambda w: SGD(w, lr=0.05), {}),
    ("sparse_adagrad", "adagrad", 0.1, 0, -1, 0, "constant", lambda w: Adagrad(w, lr=0.1), {}),
    ("sparse_adam", "adam", 0.02, 0, -1, 0, "constant", lambda w: SparseAdam(w, lr=0.02), {}),
]


def number(x):
    return f"{x:.9g}"


def write(cases, sparse):
    for name, rule, rate, l2, decay, clip, schedule, make, options in cases:
        rows = run(make, sparse, **options)
        assert all(math.isfinite(x) for row in rows for x in row)
        print(f'{{"{name}", "{rule}", {rate}, {l2}, {decay}, {clip}, "{schedule}", {str(sparse).lower()}, {{')
        for row in rows:
            print("  {" + ", ".join(map(number, row)) + "},")
        print("}},")


print("// Written by make_reference.py with PyTorch.")
write(DENSE, False)
write(SPARSE, True)
