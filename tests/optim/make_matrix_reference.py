#!/usr/bin/env python3
"""Writes matrix_trajectories.inc: the weights that rules of whole variables reach on a small problem.

    python3 tests/optim/make_matrix_reference.py > tests/optim/matrix_trajectories.inc

Needs NumPy. Each rule stands here as its paper has it, in float64, with roots from eigenvalues where Mailgrad
iterates. The problem is that of matrix_trajectory_test.cpp.
"""
import numpy as np

VARIABLES = [("wide", (2, 3)), ("tall", (4, 3)), ("filters", (1, 2, 2, 3)), ("bias", (3,)), ("scale", ())]
RECORDED = (1, 3, 20)


def start(v, shape):
    n = int(np.prod(shape))
    return np.array([((i * 5 + v * 3) % 17 - 8) / 8 for i in range(n)], dtype=np.float64)


def gradient(v, w, step):
    i = np.arange(w.size) + 7 * v
    slope = 0.5 + (i % 5) / 4
    centre = (i % 3 - 1) / 2
    noise = ((i * 7 + step * 13) % 11 - 5) / 16
    return slope * (w - centre) + noise


def matrix(x, shape):
    return x.reshape(-1, shape[-1])


class Lars:
    def __init__(self, trust=1e-3, momentum=0.9):
        self.trust, self.momentum = trust, momentum

    def begin(self, name, shape):
        return {"v": 0}

    def step(self, s, w, g, rate, decay, t):
        length_w, length_g = np.linalg.norm(w), np.linalg.norm(g)
        ratio = self.trust * length_w / (length_g + decay * length_w) if length_w and length_g else 1
        s["v"] = self.momentum * s["v"] + rate * ratio * (g + decay * w)
        return w - s["v"]


class Lamb:
    def __init__(self, beta1=0.9, beta2=0.999, epsilon=1e-6):
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def begin(self, name, shape):
        return {"m": 0, "v": 0}

    def step(self, s, w, g, rate, decay, t):
        s["m"] = self.beta1 * s["m"] + (1 - self.beta1) * g
        s["v"] = self.beta2 * s["v"] + (1 - self.beta2) * g * g
        m, v = s["m"] / (1 - self.beta1**t), s["v"] / (1 - self.beta2**t)
        r = m / (np.sqrt(v) + self.epsilon) + decay * w
        length_w, length_r = np.linalg.norm(w), np.linalg.norm(r)
        return w - rate * (length_w / length_r if length_w and length_r else 1) * r


class AdamW(Lamb):
    def step(self, s, w, g, rate, decay, t):
        s["m"] = self.beta1 * s["m"] + (1 - self.beta1) * g
        s["v"] = self.beta2 * s["v"] + (1 - self.beta2) * g * g
        m, v = s["m"] / (1 - self.beta1**t), s["v"] / (1 - self.beta2**t)
        return w - rate * decay * w - rate * m / (np.sqrt(v) + self.epsilon)


def orthogonal(g):
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g / (np.linalg.norm(g) + 1e-7)
    if g.shape[0] > g.shape[1]:
        x = x.T
    for _ in range(5):
        s = x @ x.T
        x = a * x + (b * s + c * s @ s) @ x
    return x.T if g.shape[0] > g.shape[1] else x


class Muon:
    """On [units, in] as the author has it, so our [in, units] are transposed."""

    def __init__(self, momentum=0.95, nesterov=True, adamw=(), adamw_rate=3e-4, base=0.02):
        self.momentum, self.nesterov, self.named = momentum, nesterov, adamw
        self.adamw, self.part = AdamW(0.9, 0.95, 1e-10), adamw_rate / base

    def begin(self, name, shape):
        by_adamw = len(shape) < 2 or any(word in name for word in self.named)
        return {"shape": shape, "adamw": by_adamw, "m": 0, "v": 0}

    def step(self, s, w, g, rate, decay, t):
        if s["adamw"]:
            return self.adamw.step(s, w, g, rate * self.part, decay, t)
        s["m"] = s["m"] + (1 - self.momentum) * (g - s["m"])
        u = g + self.momentum * (s["m"] - g) if self.nesterov else s["m"]
        u = orthogonal(matrix(u, s["shape"]).T)
        u = u * max(1, u.shape[0] / u.shape[1])**0.5
        return w * (1 - rate * decay) - rate * u.T.reshape(-1)


def root(a, p):
    a = a + 1e-6 * np.linalg.norm(a) * np.eye(len(a))
    values, vectors = np.linalg.eigh(a)
    return vectors @ np.diag(values**(-1 / p)) @ vectors.T


class Shampoo:
    def __init__(self, epsilon=1e-4, every=10, largest=1024):
        self.epsilon, self.every, self.largest = epsilon, every, largest

    def begin(self, name, shape):
        sides = matrix(np.zeros(shape), shape).shape if len(shape) > 1 else ()
        kept = [n <= self.largest for n in sides]
        return {"shape": shape, "kept": kept, "sum": 0, "sides": [self.epsilon * np.eye(n) for n in sides]}

    def step(self, s, w, g, rate, decay, t):
        left_over = w - rate * decay * w
        if not any(s["kept"]):
            s["sum"] = s["sum"] + g * g
            return left_over - rate * g / (np.sqrt(s["sum"]) + self.epsilon)
        m = matrix(g, s["shape"])
        s["sides"][0] = s["sides"][0] + m @ m.T
        s["sides"][1] = s["sides"][1] + m.T @ m
        if t % self.every == 0 or (t < self.every and t in (1, 2, 4, 8, 16)):
            p = 2 * sum(s["kept"])
            s["roots"] = [root(a, p) if k else np.eye(len(a)) for a, k in zip(s["sides"], s["kept"])]
        return left_over - rate * (s["roots"][0] @ m @ s["roots"][1]).reshape(-1)


def trajectory(rule, rate, decay, l2, halving):
    weights = [start(v, shape) for v, (_, shape) in enumerate(VARIABLES)]
    states = [rule.begin(name, shape) for name, shape in VARIABLES]
    recorded = []
    for t in range(1, max(RECORDED) + 1):
        now = rate * (0.5**((t - 1) // halving) if halving else 1)
        for v, w in enumerate(weights):
            g = gradient(v, w, t) + l2 * w
            weights[v] = rule.step(states[v], w, g, now, decay, t)
        if t in RECORDED:
            recorded.append(np.concatenate(weights))
    return recorded


CASES = [
    ("lars:trust=0.02", Lars(trust=0.02), 2, 5e-4, 0, 0),
    ("lars:trust=0.1,momentum=0.5", Lars(0.1, 0.5), 0.5, 0, 0.1, 5),
    ("lamb", Lamb(), 0.05, 1e-2, 0, 0),
    ("lamb:beta1=0.8,beta2=0.9,epsilon=1e-3", Lamb(0.8, 0.9, 1e-3), 0.1, 0, 0.1, 7),
    ("muon:adamw_rate=0.05", Muon(adamw_rate=0.05, base=0.02), 0.02, 0, 0, 0),
    ("muon:momentum=0.8,nesterov=no,adamw_rate=0.03", Muon(0.8, False, (), 0.03, 0.1), 0.1, 0.2, 0.05, 6),
    ("muon:adamw=tall+filt,adamw_rate=0.02", Muon(adamw=("tall", "filt"), adamw_rate=0.02, base=0.05), 0.05, 0,
     0, 0),
    ("shampoo:every=1", Shampoo(every=1), 0.1, 0, 0, 0),
    ("shampoo:epsilon=0.01", Shampoo(epsilon=0.01), 0.1, 0.1, 0.05, 5),
    ("shampoo:largest=3,every=3", Shampoo(largest=3, every=3), 0.1, 0, 0, 0),
    ("shampoo:largest=1", Shampoo(largest=1), 0.1, 0, 0, 0),
]


def main():
    print("// Written by make_matrix_reference.py.")
    for text, rule, rate, decay, l2, halving in CASES:
        schedule = f"step:every={halving},factor=0.5" if halving else "constant"
        print(f'{{"{text}", {rate}, {decay}, {l2}, "{schedule}", {{')
        for w in trajectory(rule, rate, decay, l2, halving):
            print("  {" + ", ".join(f"{x:.9g}" for x in w) + "},")
        print("}},")


if __name__ == "__main__":
    main()
