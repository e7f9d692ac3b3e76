"""Functions of the golden pipelines."""

from datetime import datetime

from headgate import udaf, udf


@udf
def initials(name: str) -> str:
    return (name[0] + name[-1]).upper()


@udf
def fare_class(fare: float | None) -> str:
    if fare is None:
        return "free"
    return "high" if fare > 30 else "low"


@udf
def with_tax(fare: float) -> float:
    return fare * 1.25


@udaf
def spread(values: list[float]) -> float:
    return max(values) - min(values) if values else 0.0


@udaf
def weighted(values: list[float], weights: list[int]) -> float | None:
    if not values:
        return None
    return sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)


@udaf
def mean_of_last_ten(prices: list[int], times: list[datetime]) -> float:
    newest = sorted(zip(times, prices, strict=True), reverse=True)[:10]
    return sum(price for _, price in newest) / len(newest)
