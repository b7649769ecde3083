"""What the peers have in common: trying variants of a step, measuring one, printing its rate."""

import itertools
import sys
import time

WARM_UP = 20


def add_arguments(parser, variants_help):
    parser.add_argument("--variant", default="best", help=variants_help + "; best tries all, eager those without "
                        "torch.compile (default: best)")
    parser.add_argument("--feeding", choices=["ready", "gathered"], default="ready")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--progress", help="file for a line about every tenth of a second: time of day, processor "
                        "seconds, steps so far")


def measure(step, feed, seconds, progress=None):
    """Steps per second."""
    for x, y in itertools.islice(feed, WARM_UP):
        step(x, y)
    begin = time.perf_counter()
    step(*next(feed))
    between_looks = max(1, min(100, int(0.02 / (time.perf_counter() - begin))))
    begin = noted = time.perf_counter()
    steps = 0
    while True:
        for x, y in itertools.islice(feed, between_looks):
            step(x, y)
        steps += between_looks
        now = time.perf_counter()
        if progress and now - noted >= 0.1:
            print(time.time(), time.process_time(), steps, file=progress, flush=True)
            noted = now
        if now - begin >= seconds:
            return steps / (now - begin)


def try_variant(variant, make_step, make_feed, seconds, progress=None):
    """Steps per second, or None where this PyTorch cannot do it."""
    try:
        return measure(make_step(variant), make_feed(variant), seconds, progress)
    except Exception as why:  # whatever an optional feature may throw
        print(f"{variant}: {str(why).splitlines()[0][:100] if str(why) else type(why).__name__}", file=sys.stderr)
        return None


def fastest(variants, make_step, make_feed):
    tried = {}
    for variant in variants:
        rate = try_variant(variant, make_step, make_feed, 1.0)
        if rate is not None:
            tried[variant] = rate
            print(f"{variant}: {rate:.1f} steps/s", file=sys.stderr)
    return max(tried, key=tried.get)


def report(options, variants, make_step, make_feed):
    """Prints steps per second and the variant; exits with 2 if it cannot be done."""
    variant = options.variant
    if variant in ("best", "eager"):
        allowed = [v for v in variants if variant == "best" or "compiled" not in v]
        variant = fastest(allowed, make_step, make_feed)
    progress = open(options.progress, "w", encoding="ascii") if options.progress else None
    rate = try_variant(variant, make_step, make_feed, options.seconds, progress)
    if rate is None:
        sys.exit(2)
    print(f"{rate:.2f} {variant}")
