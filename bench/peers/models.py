"""The networks, the data and the training steps that PyTorch is measured with."""

import gzip
import itertools

import numpy
import torch
from torch import nn
from torch.nn import functional

import recommender

BATCH = 64
LEARNING_RATE = 1e-3
FASHION_MNIST = "/usr/share/datasets/fashion-mnist"


def softmax_model():
    return nn.Linear(784, 10)


def mlp_model():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))


def lenet_model():
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 512), nn.ReLU(), nn.Linear(512, 10))


MODELS = {"softmax": softmax_model, "mlp": mlp_model, "lenet": lenet_model} | recommender.MODELS


def is_convolutional(name):
    return name == "lenet"


def read_pictures(folder):
    """The training set as it lies in memory everywhere: bytes and labels."""
    with gzip.open(f"{folder}/train-images-idx3-ubyte.gz") as file:
        pictures = numpy.frombuffer(file.read(), numpy.uint8, offset=16)
    with gzip.open(f"{folder}/train-labels-idx1-ubyte.gz") as file:
        labels = numpy.frombuffer(file.read(), numpy.uint8, offset=8)
    return torch.from_numpy(pictures.reshape(-1, 784).copy()), torch.from_numpy(labels.astype(numpy.int64))


def shape_input(pictures, name, channels_last):
    if not is_convolutional(name):
        return pictures
    pictures = pictures.view(-1, 1, 28, 28)
    return pictures.contiguous(memory_format=torch.channels_last) if channels_last else pictures


def ready_batches(name, folder, channels_last=False, count=937):
    """Batches made before the clock starts: PyTorch at its best, since feeding costs it nothing."""
    pictures, labels = read_pictures(folder)
    order = torch.randperm(len(labels))
    for i in range(count):
        chosen = order[i * BATCH:(i + 1) * BATCH]
        yield shape_input(pictures[chosen].float() / 255, name, channels_last), labels[chosen]


def gathered_batches(name, folder, channels_last=False):
    """Batches gathered from the shuffled set in the step that uses them, which is what Mailgrad does."""
    pictures, labels = read_pictures(folder)
    while True:
        order = torch.randperm(len(labels))
        for first in range(0, len(labels) - BATCH + 1, BATCH):
            chosen = order[first:first + BATCH]
            yield shape_input(pictures[chosen].float().mul_(1 / 255), name, channels_last), labels[chosen]


def batches(name, folder, feeding, channels_last=False):
    if name in recommender.MODELS:
        return recommender.batches(feeding)
    if feeding == "gathered":
        return gathered_batches(name, folder, channels_last)
    return itertools.cycle(list(ready_batches(name, folder, channels_last)))


def make_optimizer(kind, parameters, implementation):
    """`implementation` is foreach, fused or loop, as far as the installed PyTorch knows it."""
    how = {} if implementation == "loop" else {implementation: True}
    if implementation == "loop":
        how = {"foreach": False}
    if kind == "adam":
        return torch.optim.Adam(parameters, lr=LEARNING_RATE, **how)
    return torch.optim.SGD(parameters, lr=LEARNING_RATE, momentum=0.9 if kind == "momentum" else 0, **how)


def optimizer_step(model, optimizer):
    """The step as PyTorch's own examples write it."""

    def step(x, y):
        optimizer.zero_grad(set_to_none=True)
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def functional_step(kind, model):
    """The shortest way through PyTorch: gradients from autograd, the update on lists of tensors."""
    if kind not in ("sgd", "momentum"):
        raise ValueError("only SGD and momentum are written this way")
    parameters = list(model.parameters())
    velocities = [torch.zeros_like(p) for p in parameters]

    def step(x, y):
        gradients = torch.autograd.grad(functional.cross_entropy(model(x), y), parameters)
        with torch.no_grad():
            if kind == "momentum":
                torch._foreach_mul_(velocities, 0.9)
                torch._foreach_add_(velocities, gradients)
                gradients = velocities
            torch._foreach_add_(parameters, gradients, alpha=-LEARNING_RATE)

    return step


def bare_softmax_step(model):
    """Softmax regression without modules: two tensors, three calls."""
    parameters = [model.weight.detach().t().contiguous().requires_grad_(), model.bias]

    def step(x, y):
        loss = functional.cross_entropy(torch.addmm(parameters[1], x, parameters[0]), y)
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            torch._foreach_add_(parameters, gradients, alpha=-LEARNING_RATE)

    return step


def make_step(name, kind, variant):
    """`variant` joins an implementation of the update with `+channels_last` or `+compiled`."""
    how, *extras = variant.split("+")
    torch.manual_seed(1)
    if name in recommender.MODELS:
        return recommender.make_step(name, kind, how)
    model = MODELS[name]()
    if "channels_last" in extras:
        model = model.to(memory_format=torch.channels_last)
    if how == "bare":
        return bare_softmax_step(model)
    forward = torch.compile(model) if "compiled" in extras else model
    if how == "functional":
        return functional_step(kind, forward)
    return optimizer_step(forward, make_optimizer(kind, model.parameters(), how))


def variants(name, kind):
    """Everything worth trying; what an installed PyTorch lacks drops out by itself."""
    if name in recommender.MODELS:
        return recommender.variants(kind)
    updates = ["loop", "foreach", "fused"]
    if kind in ("sgd", "momentum"):
        updates.append("functional")
    formats = ["", "+channels_last"] if is_convolutional(name) else [""]
    found = [update + form for update in updates for form in formats]
    found += [update + form + "+compiled" for update in ("foreach", "fused") for form in formats]
    return found + (["bare"] if name == "softmax" else [])
