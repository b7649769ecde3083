"""The networks, the data and the training steps that PyTorch is measured with."""

import itertools
import pathlib

import numpy
import torch
from torch import nn
from torch.nn import functional

import pictures as pictures_of
import recommender

BATCH = 64
GPT_BATCH = 16  # windows
WINDOW = 64  # symbols
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


class Block(nn.Module):
    """A layer of GPT-2. `fused`: attention as one call of PyTorch's, else as two products and a softmax."""

    def __init__(self, width, heads, window, fused):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads, self.fused = heads, fused
        self.register_buffer("hidden", torch.full((window, window), float("-inf")).triu(1))

    def attention(self, x):
        batch, window, width = x.shape
        parts = self.qkv(x).view(batch, window, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        queries, keys, values = parts.unbind(0)
        if self.fused:
            y = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        else:
            scores = queries @ keys.transpose(-2, -1) * (width // self.heads) ** -0.5
            y = torch.softmax(scores + self.hidden, -1) @ values
        return self.projection(y.transpose(1, 2).reshape(batch, window, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """What `--model gpt` is by default: 2 layers, width 128, 4 heads, logits from the table of tokens."""

    def __init__(self, symbols=65, width=128, heads=4, layers=2, fused=True):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(symbols, width), nn.Parameter(torch.randn(WINDOW, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads, WINDOW, fused) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, x):
        x = self.tokens(x) + self.positions
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.tokens.weight).flatten(0, 1)


MODELS = {"softmax": softmax_model, "mlp": mlp_model, "lenet": lenet_model, "gpt": Gpt} | recommender.MODELS


def is_convolutional(name):
    return name == "lenet"


def read_pictures(folder):
    samples, labels = pictures_of.read(folder)
    return torch.from_numpy(samples), torch.from_numpy(labels.astype(numpy.int64))


def read_windows(path):
    """The first nine tenths of a text as windows of symbols, and of those one later."""
    text = numpy.frombuffer(pathlib.Path(path).read_text(encoding="utf-8").encode("utf-32-le"), numpy.uint32)
    tokens = torch.from_numpy(numpy.unique(text, return_inverse=True)[1].astype(numpy.int64))
    tokens = tokens[:round(0.9 * len(tokens))]
    count = (len(tokens) - 1) // WINDOW
    return tokens[:count * WINDOW].view(-1, WINDOW), tokens[1:count * WINDOW + 1].view(-1, WINDOW)


def text_batches(path):
    """Gathered from the shuffled windows in the step that uses them."""
    windows, labels = read_windows(path)
    while True:
        order = torch.randperm(len(windows))
        for first in range(0, len(windows) - GPT_BATCH + 1, GPT_BATCH):
            chosen = order[first:first + GPT_BATCH]
            yield windows[chosen], labels[chosen].flatten()


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
    if name == "gpt":
        gathered = text_batches(folder)
        return gathered if feeding == "gathered" else itertools.cycle(list(itertools.islice(gathered, 900)))
    if feeding == "gathered":
        return gathered_batches(name, folder, channels_last)
    return itertools.cycle(list(ready_batches(name, folder, channels_last)))


def make_optimizer(kind, parameters, implementation):
    """`implementation` is foreach, fused or loop, as far as the installed PyTorch knows it."""
    how = {} if implementation == "loop" else {implementation: True}
    if implementation == "loop":
        how = {"foreach": False}
    if kind in ("adam", "adamw"):
        rule = torch.optim.Adam if kind == "adam" else torch.optim.AdamW
        return rule(parameters, lr=LEARNING_RATE, **how)
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


def functional_adamw_step(model, forward):
    """The same with the fused kernel of AdamW, called directly."""
    parameters = list(model.parameters())
    means, squares = [[torch.zeros_like(p) for p in parameters] for _ in range(2)]
    steps = [torch.zeros(()) for _ in parameters]

    def step(x, y):
        gradients = torch.autograd.grad(functional.cross_entropy(forward(x), y), parameters)
        with torch.no_grad():
            torch._foreach_add_(steps, 1)
            torch._fused_adamw_(parameters, list(gradients), means, squares, [], steps, lr=LEARNING_RATE, beta1=0.9,
                                beta2=0.999, weight_decay=0.01, eps=1e-8, amsgrad=False, maximize=False)

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
    """`variant` joins an implementation of the update with `+channels_last`, `+products` or `+compiled`."""
    how, *extras = variant.split("+")
    torch.manual_seed(1)
    if name in recommender.MODELS:
        return recommender.make_step(name, kind, how)
    model = Gpt(fused="products" not in extras) if name == "gpt" else MODELS[name]()
    if "channels_last" in extras:
        model = model.to(memory_format=torch.channels_last)
    if how == "bare":
        return bare_softmax_step(model)
    forward = torch.compile(model) if "compiled" in extras else model
    if how == "functional" and kind == "adamw":
        return functional_adamw_step(model, forward)
    if how == "functional":
        return functional_step(kind, forward)
    return optimizer_step(forward, make_optimizer(kind, model.parameters(), how))


def variants(name, kind):
    """Everything worth trying; what an installed PyTorch lacks drops out by itself."""
    if name in recommender.MODELS:
        return recommender.variants(kind)
    updates = ["loop", "foreach", "fused"]
    if kind in ("sgd", "momentum", "adamw"):
        updates.append("functional")
    formats = {"lenet": ["", "+channels_last"], "gpt": ["", "+products"]}.get(name, [""])
    found = [update + form for update in updates for form in formats]
    found += [update + form + "+compiled" for update in ("foreach", "fused") for form in formats]
    return found + (["bare"] if name == "softmax" else [])
