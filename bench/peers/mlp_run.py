"""What the peers with a parameter server have in common: their network, its rule, and the line they print."""

import json

WIDTHS = [784, 512, 256, 10]
BATCH = 64
LEARNING_RATE, MOMENTUM = 1e-3, 0.9
WARM_UP = 100  # steps of each worker
KEPT = 50  # losses at the end of a worker, of which the mean is told


def add_arguments(parser):
    parser.add_argument("--data", required=True, help="folder with pictures as MNIST has them")
    parser.add_argument("--workers", type=int, default=1, help="processes beside the server; 0: all in one process")
    parser.add_argument("--seconds", type=float, default=3.0)


def tell(version, steps_per_second, losses):
    print(json.dumps({"version": version, "steps_per_second": steps_per_second, "loss": sum(losses) / len(losses)}))
