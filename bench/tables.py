"""Figures as the tables show them."""

import statistics


def median_and_spread(values):
    """The median, and half the distance between the quartiles by it, in per cent."""
    middle = statistics.median(values)
    if len(values) < 3:
        return middle, 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return middle, 100 * (high - low) / 2 / middle


def number(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def shown(values):
    middle, spread = median_and_spread(values)
    return f"{number(middle)} ±{spread:.1f} %"


def ratio(rates, others):
    """The median of the ratios of neighbours in time."""
    return statistics.median(a / b for a, b in zip(rates, others))
