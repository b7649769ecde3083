#!/usr/bin/env python3
"""Steps per second of PyTorch on one thread on the polynomial: three features, 100 samples, Adam.

Prints one line: steps per second, then the variant. `--variant best` tries them all first; `written` is what its
users write.
"""

import argparse
import itertools
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402  (reads the number of threads when it loads)
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import measuring  # noqa: E402

BATCH = 100
LEARNING_RATE = 0.1


def features(x):
    return torch.stack([x * x, x, torch.ones_like(x)], 1)


def ready_batches(count=1000):
    """Features computed before the clock starts."""
    for _ in range(count):
        x = torch.rand(BATCH) * 20 - 10
        yield features(x), (5 * x * x + 3).unsqueeze(1)


def gathered_batches(samples=100_000):
    """Gathered from the shuffled set in the step that uses them, features computed there, as Mailgrad does."""
    x = torch.rand(samples) * 20 - 10
    y = (5 * x * x + 3).unsqueeze(1)
    while True:
        for chosen in torch.randperm(samples).split(BATCH):
            yield features(x[chosen]), y[chosen]


def written_step():
    model = nn.Linear(3, 1, bias=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    loss_of = nn.MSELoss()

    def step(x, y):
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()

    return step


def optimizer_step(how, compiled=False):
    """A product instead of a module."""
    w = torch.zeros(3, 1, requires_grad=True)
    optimizer = torch.optim.Adam([w], lr=LEARNING_RATE, **how)

    def loss_of(x, y):
        return functional.mse_loss(x @ w, y)

    loss_of = torch.compile(loss_of) if compiled else loss_of

    def step(x, y):
        w.grad = None
        loss_of(x, y).backward()
        optimizer.step()

    return step


def functional_step(compiled=False):
    """The gradient straight from autograd, the fused update without its optimizer object."""
    w = torch.zeros(3, 1, requires_grad=True)
    mean, variance, count = torch.zeros(3, 1), torch.zeros(3, 1), torch.zeros(())
    lists = [w.detach()], [mean], [variance], [count]

    def gradient_of(x, y):
        return torch.autograd.grad(functional.mse_loss(x @ w, y), [w])

    if compiled:
        loss_of = torch.compile(lambda x, y: functional.mse_loss(x @ w, y))

        def gradient_of(x, y):  # noqa: F811
            return torch.autograd.grad(loss_of(x, y), [w])

    def step(x, y):
        gradients = gradient_of(x, y)
        count.add_(1)
        torch._fused_adam_(lists[0], gradients, lists[1], lists[2], [], lists[3], lr=LEARNING_RATE, beta1=0.9,
                           beta2=0.999, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False)

    return step


def compiled_step():
    """Gradient and update as one compiled function, as torch.func has it: no autograd in the step."""
    w, mean, variance = (torch.zeros(3, 1) for _ in range(3))
    count = torch.zeros(())
    gradient_of = torch.func.grad(lambda w, x, y: functional.mse_loss(x @ w, y))

    @torch.compile
    def update(w, mean, variance, count, x, y):
        g = gradient_of(w, x, y)
        count.add_(1)
        mean.lerp_(g, 0.1)
        variance.mul_(0.999).addcmul_(g, g, value=0.001)
        w.sub_(LEARNING_RATE * (mean / (1 - 0.9**count)) / ((variance / (1 - 0.999**count)).sqrt() + 1e-8))

    def step(x, y):
        update(w, mean, variance, count, x, y)

    return step


VARIANTS = {
    "written": written_step,
    "loop": lambda: optimizer_step({"foreach": False}),
    "foreach": lambda: optimizer_step({"foreach": True}),
    "fused": lambda: optimizer_step({"fused": True}),
    "fused+compiled": lambda: optimizer_step({"fused": True}, compiled=True),
    "functional": functional_step,
    "functional+compiled": lambda: functional_step(compiled=True),
    "all-compiled": compiled_step,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    measuring.add_arguments(parser, ", ".join(VARIANTS))
    options = parser.parse_args()

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    measuring.report(options, VARIANTS, lambda variant: VARIANTS[variant](),
                     lambda _: gathered_batches() if options.feeding == "gathered"
                     else itertools.cycle(list(ready_batches())))


if __name__ == "__main__":
    main()
