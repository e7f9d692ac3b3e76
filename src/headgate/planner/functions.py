"""What the planner must know about functions: which aggregate, which may not be computed twice."""

from __future__ import annotations

from sqlglot import exp

from headgate.planner.spark_functions import SPARK_FUNCTIONS

TIME_WINDOWS = ("tumble", "hop", "session")

# Only meaningful with OVER, though sqlglot counts them among the aggregates.
_OVER_ONLY = (
    exp.CumeDist,
    exp.DenseRank,
    exp.Lag,
    exp.Lead,
    exp.NthValue,
    exp.Ntile,
    exp.PercentRank,
    exp.Rank,
    exp.RowNumber,
)

_AGGREGATE_WORDS = """
any any_value approx_count_distinct approx_distinct approx_median approx_percentile
approx_percentile_cont approx_top_k array_agg avg bit_and bit_or bit_xor bitmap_construct_agg
bitmap_or_agg bool_and bool_or collect_list collect_set corr count count_if count_min_sketch
covar covar_pop covar_samp every first first_value histogram_numeric hll_sketch_agg
hll_union_agg kurtosis last last_value listagg max max_by mean median min min_by mode percentile
percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept
regr_r2 regr_slope regr_sxx regr_sxy regr_syy schema_of_variant_agg skewness some std stddev
stddev_pop stddev_samp string_agg sum try_avg try_sum var var_pop var_samp variance
"""
_AGGREGATE_NAMES = frozenset(_AGGREGATE_WORDS.split())

_VOLATILE_WORDS = """
curdate current_date current_time current_timestamp localtimestamp localtime
monotonically_increasing_id now rand randn random randstr shuffle spark_partition_id uniform
uuid
"""
_VOLATILE_NAMES = frozenset(_VOLATILE_WORDS.split())
_VOLATILE = (
    exp.CurrentDate,
    exp.CurrentDatetime,
    exp.CurrentTime,
    exp.CurrentTimestamp,
    exp.Localtime,
    exp.Localtimestamp,
    exp.Rand,
    exp.Randn,
    exp.Uuid,
)


def function_name(node: exp.Expr | None) -> str:
    """Return the lower-case name of a function call that sqlglot does not know."""
    return str(node.name).lower() if isinstance(node, exp.Anonymous) else ""


def is_aggregate(node: exp.Expr, udafs: frozenset[str] = frozenset()) -> bool:
    """Whether the node is a call of an aggregate function (an OVER around it aside)."""
    if isinstance(node, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
        return is_aggregate(node.this, udafs)
    if isinstance(node, exp.AggFunc):
        return not isinstance(node, _OVER_ONLY)
    name = function_name(node)
    return name in _AGGREGATE_NAMES or name in udafs


def is_volatile(node: exp.Expr) -> bool:
    """Whether computing the expression twice may give two answers, or costs a user's function."""
    return any(
        isinstance(part, _VOLATILE)
        or (
            isinstance(part, exp.Anonymous)
            and (
                function_name(part) in _VOLATILE_NAMES or function_name(part) not in SPARK_FUNCTIONS
            )
        )
        for part in node.walk()
    )


def is_known_function(name: str) -> bool:
    return name in SPARK_FUNCTIONS
