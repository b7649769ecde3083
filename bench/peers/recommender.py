"""Recommenders in PyTorch: eight tables of embeddings, and a network on their concatenation or on their dot products."""

import itertools

import torch
from torch import nn
from torch.nn import functional

BATCH = 256
BATCHES = 1000
TABLES = 8
ROWS = 100_000
WIDTH = 16
LEARNING_RATE = 1e-3


class Tables(nn.Module):
    """A table a category, as most write it."""

    def __init__(self, kind):
        super().__init__()
        make = {"embedding": lambda: nn.Embedding(ROWS, WIDTH, sparse=True),
                "bag": lambda: nn.EmbeddingBag(ROWS, WIDTH, mode="sum", sparse=True)}[kind]
        self.tables = nn.ModuleList(make() for _ in range(TABLES))
        self.bags = kind == "bag"

    def forward(self, categories):
        columns = categories.t().contiguous()
        if self.bags:
            return torch.stack([table(c.unsqueeze(1)) for table, c in zip(self.tables, columns)], 1)
        return torch.stack([table(c) for table, c in zip(self.tables, columns)], 1)


class JoinedTables(nn.Module):
    """All categories in one table: fewer calls, and one sparse gradient to update from."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(TABLES * ROWS, WIDTH, sparse=True)
        self.register_buffer("first_rows", torch.arange(TABLES) * ROWS)

    def forward(self, categories):
        return self.table(categories + self.first_rows)


class Concatenation(nn.Module):
    def __init__(self, tables):
        super().__init__()
        self.tables = tables
        self.top = nn.Sequential(nn.Linear(TABLES * WIDTH, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, categories):
        return self.top(self.tables(categories).flatten(1)).squeeze(1)


class Dots(nn.Module):
    """As the code of Naumov et al. has it: a batched product, of which one triangle is taken."""

    def __init__(self, tables):
        super().__init__()
        self.tables = tables
        i, j = torch.tril_indices(TABLES, TABLES, -1)
        self.register_buffer("places", i * TABLES + j)
        self.top = nn.Sequential(nn.Linear(len(i), 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, categories):
        x = self.tables(categories)
        products = torch.bmm(x, x.transpose(1, 2)).flatten(1)
        return self.top(products.index_select(1, self.places)).squeeze(1)


MODELS = {"dlrm": Concatenation, "dlrm-dot": Dots}


def samples():
    generator = torch.Generator().manual_seed(1)
    return (torch.randint(ROWS, (BATCH * BATCHES, TABLES), generator=generator),
            torch.rand(BATCH * BATCHES, generator=generator))


def batches(feeding):
    """Ready before the clock starts, or gathered from the shuffled samples in the step that uses them."""
    categories, targets = samples()
    if feeding == "ready":
        return itertools.cycle(list(zip(categories.split(BATCH), targets.split(BATCH))))
    return gathered(categories, targets)


def gathered(categories, targets):
    while True:
        for chosen in torch.randperm(len(targets)).split(BATCH):
            yield categories[chosen], targets[chosen]


def make_optimizers(kind, model):
    """Tables have an optimiser of their own, so that the dense layers keep their fast path."""
    tables = list(model.tables.parameters())
    dense = list(model.top.parameters())
    if kind == "adagrad":
        return [torch.optim.Adagrad(tables, lr=LEARNING_RATE), torch.optim.Adagrad(dense, lr=LEARNING_RATE, foreach=True)]
    return [torch.optim.SGD(tables, lr=LEARNING_RATE, foreach=False), torch.optim.SGD(dense, lr=LEARNING_RATE, foreach=True)]


def optimizer_step(kind, model):
    optimizers = make_optimizers(kind, model)

    def step(categories, targets):
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        functional.mse_loss(model(categories), targets).backward()
        for optimizer in optimizers:
            optimizer.step()

    return step


def scattered_step(kind, model):
    """The shortest way: the gathered rows are the leaves, and what they are due is added to the table by index."""
    if kind != "sgd":
        raise ValueError("only SGD may add repeated rows one by one")
    table, first_rows = model.tables.table.weight, model.tables.first_rows
    dense = list(model.top.parameters())

    class Given(nn.Module):
        def forward(self, x):
            return x

    model.tables = Given()

    def step(categories, targets):
        rows = (categories + first_rows).view(-1)
        leaves = table.detach().index_select(0, rows).requires_grad_()
        loss = functional.mse_loss(model(leaves.view(-1, TABLES, WIDTH)), targets)
        gradient, *gradients = torch.autograd.grad(loss, [leaves, *dense])
        with torch.no_grad():
            table.index_add_(0, rows, gradient, alpha=-LEARNING_RATE)
            torch._foreach_add_(dense, gradients, alpha=-LEARNING_RATE)

    return step


def make_step(name, kind, how):
    tables = JoinedTables() if how in ("joined", "scattered") else Tables(how)
    model = MODELS[name](tables)
    return scattered_step(kind, model) if how == "scattered" else optimizer_step(kind, model)


def variants(kind):
    return ["embedding", "bag", "joined"] + (["scattered"] if kind == "sgd" else [])
