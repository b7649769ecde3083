"""The networks that are compared, with what one step of each needs at least."""

import typing

BATCH = 64
MLP_WEIGHTS = 784 * 512 + 512 + 512 * 256 + 256 + 256 * 10 + 10
CNN_WEIGHTS = 5 * 5 * 32 + 32 + 5 * 5 * 32 * 64 + 64 + 64 * 49 * 512 + 512 + 512 * 10 + 10
CNN_ACTIVATIONS = 28 * 28 * 32 + 14 * 14 * 32 + 14 * 14 * 64 + 7 * 7 * 64


class Peer(typing.NamedTuple):
    """What both sides are told to train."""

    name: str
    optimizer: str


class Model:
    """A network, its update, and what one step of it needs at least: multiply-adds and bytes of memory."""

    def __init__(self, name, optimizer, multiply_adds, weights, activations, target, batch=BATCH, numbers=784):
        self.name, self.optimizer, self.target, self.batch = name, optimizer, target, batch
        self.flops = 2 * multiply_adds * batch
        self.update_bytes = 4 * weights * {"sgd": 3, "momentum": 5, "adam": 7, "adamw": 7}[optimizer]
        # a sample is written once and read by two products; a value and its gradient are written and read
        self.copied_bytes = 4 * batch * (3 * numbers + 4 * activations)

    def limit(self, limits):
        seconds = (self.flops / limits["multiply-adds"]
                   + self.update_bytes / limits[f"{self.optimizer.removesuffix('w')} update, 2 MiB arrays"]
                   + self.copied_bytes / limits["copy, 2 MiB arrays"])
        return 1e9 / seconds


# No gradient flows into the pictures, so a first layer has two products, the others three.
MLP = 2 * 784 * 512 + 3 * (512 * 256 + 256 * 10)
CNN = 2 * 784 * 32 * 25 + 3 * (196 * 64 * 32 * 25 + 3136 * 512 + 512 * 10)
# Of a window of 64 symbols; attention has two products forward, four backward, half of each behind the mask.
GPT_WEIGHTS = 65 * 128 + 64 * 128 + 2 * (12 * 128 * 128 + 13 * 128) + 2 * 128
GPT = 3 * 64 * (2 * 12 * 128 * 128 + 128 * 65) + 2 * 6 * (64 * 65 // 2) * 128
GPT_ACTIVATIONS = 64 * (2 * (2 * 128 + 3 * 128 + 2 * 128 + 2 * 512 + 128) + 2 * 128 + 65)
MODELS = [
    Model("softmax", "sgd", 2 * 7840, 7850, 0, 2.5),
    Model("mlp", "momentum", MLP, MLP_WEIGHTS, 768, 1.25),
    Model("mlp", "adam", MLP, MLP_WEIGHTS, 768, 1.5),
    Model("lenet", "adam", CNN, CNN_WEIGHTS, CNN_ACTIVATIONS + 512, 1.35),
    Model("gpt", "adamw", GPT, GPT_WEIGHTS, GPT_ACTIVATIONS, 1.4, batch=16, numbers=64),
]


RECOMMENDERS = {  # ours, by the name it has in peers/recommender.py
    "dlrm": "dlrm:width=16,bottom=,top=64,interaction=concat",
    "dlrm-dot": "dlrm:width=16,bottom=,top=128x64,interaction=dot",
}
