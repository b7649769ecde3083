"""What PyTorch takes for the same work on the same GPU, by events of the GPU. scripts/gpu-check runs this.

  peers.py ceilings    the GPU's own limits: a copy, products in float32, TF32 and bfloat16
  peers.py steps       whole training steps of steps.cpp: eager with the fused optimiser, and as a CUDA graph; and those of a
                       recommender with tables of many rows, eager
  peers.py gpt         steps of a transformer of GPT-2's smallest size in bfloat16: eager and by torch.compile, each launched and
                       as a CUDA graph
  peers.py compiled    the steps of steps.cpp by torch.compile, and how long it compiles: launched; those of mlp and gpt also with
                       the graphs that PyTorch makes itself, and as one CUDA graph
  peers.py kernels     the kernels of kernels.cpp that PyTorch hands to cuBLAS and cuDNN, its fused attention and its gradient of an
                       embedding, under the same names

Prints lines of a name, microseconds (median), spread in percent, GB/s and TFLOP/s, apart by tabs; and lines of a name and
words.
"""
import statistics
import sys
import time

import torch
import torch.nn.functional as F


def microseconds(queue, rounds=15):
    """As gpu_timing.hpp does: rounds of several launches one behind the other."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def one_round(launches):
        begin.record()
        for _ in range(launches):
            queue()
        end.record()
        end.synchronize()
        return 1000 * begin.elapsed_time(end) / launches

    one_round(3)
    launches = min(200, max(3, int(2000 / one_round(3))))
    return sorted(one_round(launches) for _ in range(rounds))


def replayed(queue):
    """The kernels alone: small ones take less time than PyTorch needs to launch them, so they run as a graph."""
    for _ in range(3):
        queue()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        queue()
    return graph.replay


def tell(name, queue, values=0, operations=0):
    tell_times(name, microseconds(queue), values, operations)


def tell_times(name, took, values=0, operations=0):
    median = statistics.median(took)
    spread = (took[len(took) - 1 - len(took) // 4] - took[len(took) // 4]) / 2 / median
    print(f"{name}\t{median:.2f}\t{100 * spread:.1f}\t{4 * values / median / 1e3:.1f}\t{operations / median / 1e6:.2f}", flush=True)


def ceilings():
    x = torch.randn(64 << 20, device="cuda")
    y = torch.empty_like(x)
    tell("PyTorch's copy of 256 MiB", lambda: y.copy_(x), values=2 * x.numel())
    n = 8192
    for name, kind, tf32 in [("float32", torch.float32, False), ("TF32", torch.float32, True), ("bfloat16", torch.bfloat16, False)]:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        a, b = torch.randn(n, n, device="cuda", dtype=kind), torch.randn(n, n, device="cuda", dtype=kind)
        tell(f"product {n}x{n}x{n} in {name}", lambda: torch.mm(a, b), operations=2 * n**3)


def products():
    def product(name, m, n, k, a_transposed=False, b_transposed=False):
        a = torch.randn(k, m, device="cuda").t() if a_transposed else torch.randn(m, k, device="cuda")
        b = torch.randn(n, k, device="cuda").t() if b_transposed else torch.randn(k, n, device="cuda")
        out = torch.empty(m, n, device="cuda")
        tell(name, replayed(lambda: torch.mm(a, b, out=out)), operations=2 * m * n * k)

    product("product 4096x4096x4096", 4096, 4096, 4096)
    product("product 64x512x784", 64, 512, 784)
    product("product 784x512x64, A transposed", 784, 512, 64, a_transposed=True)
    product("product 64x512x256, B transposed", 64, 512, 256, b_transposed=True)


def convolutions():
    torch.backends.cudnn.benchmark = True

    def passes(layer, batch, height, channels, filters, with_data):
        x = torch.randn(batch, channels, height, height, device="cuda").to(memory_format=torch.channels_last)
        w = torch.randn(filters, channels, 5, 5, device="cuda").to(memory_format=torch.channels_last)
        dy = torch.randn(batch, filters, height, height, device="cuda").to(memory_format=torch.channels_last)
        operations = 2 * batch * height * height * filters * 25 * channels

        def backward(which):
            return lambda: torch.ops.aten.convolution_backward(dy, x, w, None, [1, 1], [2, 2], [1, 1], False, [0, 0], 1, which)

        tell(f"{layer} of lenet, batch {batch}", replayed(lambda: F.conv2d(x, w, padding=2)), operations=operations)
        if with_data:
            tell(f"{layer} data, batch {batch}", replayed(backward([True, False, False])), operations=operations)
        tell(f"{layer} weights, batch {batch}", replayed(backward([False, True, False])), operations=operations)

    for batch in (64, 1024):
        passes("conv1", batch, 28, 1, 32, False)
        passes("conv2", batch, 14, 32, 64, True)


def attention(batch=8, heads=12, window=1024, width=64, kind=torch.float32, also=""):
    """Launched, since a graph cannot hold a backward pass alone; each takes much longer than its launch."""
    qkv = (torch.rand(batch, window, 3, heads, width, device="cuda") * 2 - 1).to(kind)
    operands = [qkv[:, :, i].transpose(1, 2).detach().requires_grad_() for i in range(3)]
    dy = torch.rand(batch, window, heads, width, device="cuda").to(kind).transpose(1, 2)
    of_one_product = batch * heads * window * window * width
    with torch.no_grad():
        tell("causal attention" + also, lambda: F.scaled_dot_product_attention(*operands, is_causal=True), operations=2 * of_one_product)
    y = F.scaled_dot_product_attention(*operands, is_causal=True)
    tell("gradient of causal attention" + also, lambda: torch.autograd.grad(y, operands, dy, retain_graph=True), operations=5 * of_one_product)


def embeddings(tokens=8192, width=768):
    dy = torch.rand(tokens, width, device="cuda")
    for name, height in [("embedding gradient, 50257 words", 50257), ("embedding gradient, 65 letters", 65)]:
        rows = torch.randint(0, height, (tokens,), device="cuda")
        tell(name, lambda: torch.ops.aten.embedding_dense_backward(dy, rows, height, -1, False), values=(tokens + height) * width)


def network(name):
    layers = torch.nn
    if name == "gpt":
        return Gpt()
    if name == "softmax":
        return layers.Sequential(layers.Flatten(), layers.Linear(784, 10))
    if name == "mlp":
        return layers.Sequential(layers.Flatten(), layers.Linear(784, 512), layers.ReLU(), layers.Linear(512, 256),
                                 layers.ReLU(), layers.Linear(256, 10))
    return layers.Sequential(layers.Conv2d(1, 32, 5, padding=2), layers.ReLU(), layers.MaxPool2d(2),
                             layers.Conv2d(32, 64, 5, padding=2), layers.ReLU(), layers.MaxPool2d(2), layers.Flatten(),
                             layers.Linear(3136, 512), layers.ReLU(), layers.Linear(512, 10))


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        layers = torch.nn
        self.heads = heads
        self.norm1, self.norm2 = layers.LayerNorm(width), layers.LayerNorm(width)
        self.qkv, self.projection = layers.Linear(width, 3 * width), layers.Linear(width, width)
        self.mlp = layers.Sequential(layers.Linear(width, 4 * width), layers.GELU(), layers.Linear(4 * width, width))

    def forward(self, x):
        batch, window, width = x.shape
        q, k, v = (part.view(batch, window, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(width, 2))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, window, width)
        x = x + self.projection(attended)
        return x + self.mlp(self.norm2(x))


class Gpt(torch.nn.Module):
    """As our gpt: its last layer has the weights of its table of tokens."""

    def __init__(self, symbols=65, window=256, layers=6, width=384, heads=6):
        super().__init__()
        self.tokens = torch.nn.Embedding(symbols, width)
        self.positions = torch.nn.Parameter(torch.randn(window, width))
        self.blocks = torch.nn.Sequential(*(Block(width, heads) for _ in range(layers)), torch.nn.LayerNorm(width))

    def forward(self, x):
        return (self.blocks(self.tokens(x) + self.positions) @ self.tokens.weight.t()).flatten(0, 1)


def step_of(name, change=lambda f: f, keeps_gradients=True):
    """A training step of a model of that name; `change` is what is made of its forward pass with the loss."""
    model = network(name).cuda()
    if name == "lenet":
        model = model.to(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, fused=True)
    x = torch.rand(64, 1, 28, 28, device="cuda") * 2 - 1
    labels = torch.randint(0, 10, (64,), device="cuda")
    if name == "gpt":
        x, labels = torch.randint(0, 65, (64, 256), device="cuda"), torch.randint(0, 65, (64 * 256,), device="cuda")
    return learning_step(change(lambda: F.cross_entropy(model(x), labels)), optimiser, keeps_gradients)


def learning_step(loss, optimiser, keeps_gradients):
    def step():
        optimiser.zero_grad(set_to_none=not keeps_gradients)
        loss().backward()
        optimiser.step()

    return step


def as_a_graph(step):
    """The whole step as one CUDA graph, with its update. Captured on another stream than that of the launches before."""
    warm = torch.cuda.Stream()
    warm.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warm):
        for _ in range(5):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def with_own_graphs(f):
    """What PyTorch calls "reduce-overhead": it compiles, and keeps graphs of the forward and of the backward pass."""
    return torch.compile(f, mode="reduce-overhead")


def marked(step):
    """A step that says when it begins, so that graphs of PyTorch's own may write over what the step before it left."""
    def one():
        torch.compiler.cudagraph_mark_step_begin()
        step()

    return one


def say_skipped(name, why):
    """A compiler of C and Triton, which torch.compile needs, may be missing on the machine, and not all can be captured."""
    print(f"{name}\tskipped: {(str(why).strip() or repr(why)).splitlines()[0][:100]}", flush=True)


def compiled():
    torch.backends.cudnn.benchmark = True
    for name in ("mlp", "gpt", "softmax", "lenet"):  # those first that count most, since the time is limited
        torch.compiler.reset()
        began = time.perf_counter()
        try:
            step = step_of(name, torch.compile)
            step()
            torch.cuda.synchronize()
        except Exception as why:
            say_skipped(f"step of {name}, compiled", why)
            continue
        print(f"torch.compile of the step of {name}\ttook {time.perf_counter() - began:.1f} s", flush=True)
        for _ in range(5):
            step()
        torch.cuda.synchronize()
        tell_times(f"step of {name}, compiled", wall(step))
        if name in ("mlp", "gpt"):
            tell_compiled_graphs(name, step)


def tell_compiled_graphs(name, step):
    try:
        tell_times(f"step of {name}, compiled, as a graph", microseconds(as_a_graph(step)))
    except Exception as why:
        say_skipped(f"step of {name}, compiled, as a graph", why)
    torch.compiler.reset()
    try:
        step = marked(step_of(name, with_own_graphs, keeps_gradients=False))  # else they would lie in what a graph writes over
        for _ in range(8):
            step()
        torch.cuda.synchronize()
        tell_times(f"step of {name}, compiled, reduce-overhead", wall(step))
    except Exception as why:
        say_skipped(f"step of {name}, compiled, reduce-overhead", why)


def large_step(change=lambda f: f):
    """A step of the large model of steps.cpp. Weights and gradients are float32; autocast rounds what products read."""
    model = Gpt(window=1024, layers=12, width=768, heads=12).cuda()
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, fused=True)
    x, labels = torch.randint(0, 65, (16, 1024), device="cuda"), torch.randint(0, 65, (16 * 1024,), device="cuda")

    def of_batch():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return F.cross_entropy(model(x), labels)

    return learning_step(change(of_batch), optimiser, keeps_gradients=False)


def gpt():
    weights = 12 * 12 * 768**2 + 65 * 768
    operations = (6 * weights + 12 * 12 * 768 * 1024) * 16 * 1024  # as steps.cpp counts them
    row, made = "step of gpt 768x12x1024, bfloat16", {}
    for name, change in [("eager", lambda f: f), ("compiled", torch.compile)]:
        began = time.perf_counter()
        try:
            step = large_step(change)
            for _ in range(3):
                step()
            torch.cuda.synchronize()
        except Exception as why:
            say_skipped(f"{row}, {name}", why)
            continue
        print(f"first three steps of gpt 768x12x1024, {name}\ttook {time.perf_counter() - began:.1f} s", flush=True)
        tell(f"{row}, {name}", step, operations=operations)
        made[name] = step
    for name, step in made.items():  # last, since a capture that fails may harm what comes behind it
        try:
            tell(f"{row}, {name}, as a graph", as_a_graph(step), operations=operations)
        except Exception as why:
            say_skipped(f"{row}, {name}, as a graph", why)


def steps():
    torch.backends.cudnn.benchmark = True
    for name in ("softmax", "mlp", "lenet", "gpt"):
        step = step_of(name)
        warm = torch.cuda.Stream()
        with torch.cuda.stream(warm):
            for _ in range(5):
                step()
        torch.cuda.synchronize()
        tell_times(f"step of {name}, launched", wall(step))
        tell_times(f"step of {name}, as a graph", microseconds(as_a_graph(step)))
    for rows in (100_000, 1_000_000):
        recommender(rows)


class Recommender(torch.nn.Module):
    """As our dlrm:width=16,bottom=64,top=64 for samples of categories alone: the products of each two vectors of a sample."""

    def __init__(self, rows, joined, tables=26, width=16):
        super().__init__()
        layers = torch.nn
        sizes = [tables * rows] if joined else [rows] * tables
        self.tables = layers.ModuleList(layers.Embedding(n, width, sparse=True, device="cuda") for n in sizes)
        if joined:
            self.register_buffer("first_rows", torch.arange(tables, device="cuda") * rows)
        i, j = torch.tril_indices(tables, tables, -1, device="cuda")
        self.register_buffer("places", i * tables + j)
        self.top = layers.Sequential(layers.Linear(len(i), 64), layers.ReLU(), layers.Linear(64, 1)).cuda()

    def forward(self, rows):
        if len(self.tables) == 1:
            x = self.tables[0](rows + self.first_rows)
        else:
            x = torch.stack([table(r) for table, r in zip(self.tables, rows.t().contiguous())], 1)
        products = torch.bmm(x, x.transpose(1, 2)).flatten(1)
        return self.top(products.index_select(1, self.places)).squeeze(1)


def recommender_step(rows, joined, samples=2048, tables=26):
    """Its eight batches lie on the GPU already. Tables have an optimiser of their own, since their gradients are sparse."""
    model = Recommender(rows, joined)
    optimisers = [torch.optim.Adagrad(list(part.parameters()), lr=1e-3) for part in (model.tables, model.top)]
    batches = [(torch.randint(0, rows, (samples, tables), device="cuda"), torch.randint(0, 2, (samples,), device="cuda").float())
               for _ in range(8)]
    taken = 0

    def step():
        nonlocal taken
        named, wanted = batches[taken % len(batches)]
        taken += 1
        for optimiser in optimisers:
            optimiser.zero_grad(set_to_none=True)
        F.mse_loss(model(named), wanted).backward()
        for optimiser in optimisers:
            optimiser.step()

    return step


def recommender(rows):
    """Under the name that our steps have, the faster of two ways to write them: 26 tables, or one that holds all."""
    name = f"step of dlrm, 26 tables of {rows} rows"
    took = {}
    for way, joined in [("26 tables", False), ("one table for all", True)]:
        step = recommender_step(rows, joined)
        step()
        torch.cuda.synchronize()
        took[way] = wall(step, rounds=9)
        del step
    for way, times in took.items():
        print(f"PyTorch's {name}, as {way}\t{statistics.median(times):.0f} us", flush=True)
    tell_times(name, min(took.values(), key=statistics.median))


def wall(step, rounds=15):
    begin = time.perf_counter()
    step()
    torch.cuda.synchronize()
    count = min(100, max(5, int(0.1 / (time.perf_counter() - begin))))
    took = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(count):
            step()
        torch.cuda.synchronize()
        took.append(1e6 * (time.perf_counter() - begin) / count)
    return sorted(took)


def main():
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    if sys.argv[1] == "ceilings":
        return ceilings()
    if sys.argv[1] == "steps":
        return steps()
    if sys.argv[1] == "gpt":
        return gpt()
    if sys.argv[1] == "compiled":
        return compiled()
    products()
    attention()
    attention(kind=torch.bfloat16, also=", bfloat16")
    embeddings()
    convolutions()


main()
