"""The types of a bound expression, and what Spark would refuse in it.

Every node gives the letters of the types that it may have (see `facts.py`), None if nothing is
known; an error is raised where all of them would be refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from headgate.core.suggestions import did_you_mean
from headgate.planner.errors import SqlError, error_at
from headgate.planner.functions import TIME_WINDOWS, function_name
from headgate.planner.typecheck.facts import (
    ARITY_MAX,
    LETTERS,
    Letters,
    answers_of_function,
    answers_of_operator,
    arity,
    letters_of,
)
from headgate.planner.typecheck.wording import (
    no_field,
    not_a_number,
    not_an_argument,
    not_an_operand,
    text_as_number,
    wrong_count,
)
from headgate.planner.types import element_type, field_type, spark_type, split_type

_SIGNS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.And: "AND",
    exp.Or: "OR",
    exp.DPipe: "||",
    exp.Like: "LIKE",
    exp.RegexpLike: "RLIKE",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.Neg: "negative",
    exp.Not: "NOT",
}
_AGGREGATES: dict[type[exp.Expr], str] = {
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.Stddev: "stddev",
    exp.StddevPop: "stddev_pop",
    exp.StddevSamp: "stddev_samp",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
}
_ARITHMETIC = frozenset("+-*/%") | {"div"}
_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">=", "<=>"})
_NUMBERS = frozenset("ILDN")
# Aggregates that compute with numbers: Spark would cast a text to one, row by row.
_OF_NUMBERS = frozenset({"sum", "avg", "stddev", "stddev_pop", "variance", "var_pop", "var_samp"})
# Their first argument of three is a unit, which is a word of the grammar.
_WITH_UNIT = frozenset(
    {"dateadd", "date_add", "datediff", "date_diff", "timestampadd", "timestampdiff"}
)
# Arguments that are no plain expressions: what they mean is the function's business.
_SYNTAX = (exp.Lambda, exp.Kwarg, exp.PropertyEQ, exp.Distinct, exp.Order, exp.Star, exp.Var)


def _nothing(_: exp.Column) -> str | None:
    return None


def _no(_: exp.Column) -> bool:
    return False


@dataclass(frozen=True)
class Checker:
    """Checks expressions over columns whose types `kind_of` knows.

    `is_declared` says whether a column was declared with its type by the user. A text that was made
    by a function may well hold numbers, but who declares TEXT and computes with it is mistaken.
    """

    kind_of: Callable[[exp.Column], str | None] = _nothing
    is_declared: Callable[[exp.Column], bool] = _no
    # The user's functions, which may have the name of one of Spark's: what they return.
    udfs: Mapping[str, str] = field(default_factory=dict)

    def check(self, node: exp.Expr) -> None:
        """Raise `SqlError` if Spark would refuse the expression."""
        try:
            self._letters(node)
        except RecursionError:
            # Too deep to look at is not known to be wrong.
            return

    def check_condition(self, node: exp.Expr, clause: str) -> None:
        """Raise `SqlError` if what stands in WHERE, ON or HAVING is no condition."""
        try:
            self._condition(node, clause)
        except RecursionError:
            return

    def can_cast(self, node: exp.Expr, kind: str) -> str | None:
        """Return None, or the type that cannot be cast to `kind`."""
        try:
            found = self._letters(node)
        except (SqlError, RecursionError):
            # What is wrong with it was said where it was bound.
            return None
        refused = answers_of_operator(f"CAST {_cast_kind(kind)}", [found]) == "-"
        return self._shown(node) if refused else None

    def kind(self, node: exp.Expr) -> str | None:
        """Return the type of an expression, if it is known exactly."""
        match node:
            case exp.Column():
                return self.kind_of(node)
            case exp.Paren() | exp.Alias():
                return self.kind(node.this)
            case exp.Cast():
                return _type(node.to)
            case exp.Dot():
                outer = self.kind(node.this)
                return field_type(outer, node.expression.name) if outer is not None else None
            case exp.Bracket():
                outer = self.kind(node.this)
                return element_type(outer) if outer is not None else None
            case exp.Literal() if node.is_string:
                return "string"
        found = self._letters(node)
        if found is None or len(found) > 1 or found in "NUQ":
            return None
        return LETTERS[found]

    # ---- one node after the other, children first ----------------------------------------------

    def _letters(self, node: exp.Expr) -> Letters:
        if isinstance(node, exp.Literal):
            return _literal(node)
        if isinstance(node, exp.Boolean):
            return "B"
        if isinstance(node, exp.Lambda | exp.Null | exp.Interval | exp.DataType):
            # The variables of a lambda are bound by its function.
            return None
        if isinstance(node, exp.Column):
            return letters_of(self.kind_of(node))
        if isinstance(node, exp.Paren | exp.Alias):
            return self._letters(node.this)
        sign = _SIGNS.get(type(node))
        if sign is not None:
            return self._operator(node, sign)
        if isinstance(node, exp.Cast):
            return self._cast(node)
        if isinstance(node, exp.Dot):
            return self._dot(node)
        if isinstance(node, exp.Anonymous):
            return self._call(node, function_name(node), node.expressions)
        if type(node) in _AGGREGATES and _only_this(node):
            return self._call(node, _AGGREGATES[type(node)], [node.this])
        if isinstance(node, exp.Filter):
            self._condition(node.expression.this, "FILTER")
            return self._letters(node.this)
        if isinstance(node, exp.If):
            return self._branch(node, asks=not isinstance(node.parent, exp.Case))
        return self._other(node)

    def _branch(self, node: exp.If, *, asks: bool) -> Letters:
        # `CASE x WHEN 1` compares, `CASE WHEN x` asks.
        if asks or node.parent is None or node.parent.this is None:
            self._condition(node.this, "WHEN" if isinstance(node.parent, exp.Case) else "IF")
        else:
            self._letters(node.this)
        for value in (node.args.get("true"), node.args.get("false")):
            if value is not None:
                self._letters(value)
        return None

    def _condition(self, node: exp.Expr, clause: str) -> None:
        found = self._letters(node)
        if answers_of_operator("WHERE", [found]) == "-":
            raise error_at(node, f"{clause} needs a condition, but this is {self._shown(node)}")

    def _other(self, node: exp.Expr) -> Letters:
        for child in node.iter_expressions():
            self._letters(child)
        if isinstance(node, exp.Count):
            return "L"
        if isinstance(node, exp.Predicate | exp.Exists):
            return "B"
        if isinstance(node, exp.Bracket):
            return letters_of(self.kind(node))
        return None

    def _all_of(self, node: exp.Connector, sign: str) -> Letters:
        """Look at `a AND b AND c`, which may be long, without going deep."""
        waiting: list[exp.Expr] = [node]
        while waiting:
            part = waiting.pop()
            if type(part) is type(node):
                waiting += [part.expression, part.this]
            elif answers_of_operator(sign, [self._letters(part), "B"]) == "-":
                raise error_at(part, not_an_operand(sign, [self._shown(part)]))
        return "B"

    def _operator(self, node: exp.Expr, sign: str) -> Letters:
        if isinstance(node, exp.And | exp.Or):
            return self._all_of(node, sign)
        unary = isinstance(node, exp.Unary)
        operands = [node.this] if unary else [node.this, node.expression]
        found = [self._letters(operand) for operand in operands]
        if sign in _ARITHMETIC or sign in _COMPARISONS:
            self._numbers(node, sign, operands, found)
        answers = answers_of_operator(sign, found)
        if answers == "-":
            raise error_at(node, not_an_operand(sign, [self._shown(o) for o in operands]))
        return _one(answers)

    def _numbers(
        self, node: exp.Expr, sign: str, operands: list[exp.Expr], found: list[Letters]
    ) -> None:
        """Refuse what Spark's analyzer lets pass, and the first row refuses."""
        if len(operands) != 2:
            return
        for operand, other in ((0, 1), (1, 0)):
            letters = found[other]
            if letters is None or not set(letters) <= _NUMBERS:
                continue
            text = operands[operand]
            if isinstance(text, exp.Literal) and text.is_string and _is_wordy(str(text.this)):
                shown = self._shown(operands[other])
                raise error_at(text, not_a_number(str(text.this), sign, shown))
            if sign in _ARITHMETIC and self._is_declared_text(text):
                raise error_at(node, text_as_number(text.name, f"{sign} computes with numbers"))

    def _is_declared_text(self, node: exp.Expr) -> bool:
        return (
            isinstance(node, exp.Column)
            and self.kind_of(node) == "string"
            and self.is_declared(node)
        )

    def _cast(self, node: exp.Cast) -> Letters:
        found = self._letters(node.this)
        kind = _type(node.to)
        if kind is None:
            return None
        if not isinstance(node, exp.TryCast):
            answers = answers_of_operator(f"CAST {_cast_kind(kind)}", [found])
            if answers == "-":
                shown = self._shown(node.this)
                raise error_at(node, f"{shown} cannot be cast to {_sql(kind)}")
        return letters_of(kind)

    def _dot(self, node: exp.Dot) -> Letters:
        self._letters(node.this)
        outer, name = self.kind(node.this), node.expression.name
        if outer is None:
            return None
        kind = field_type(outer, name)
        if kind is None and outer.startswith("struct<") and "`" not in outer:
            names = [part.partition(":")[0] for part in _fields(outer)]
            raise error_at(node, no_field(name, names) + did_you_mean(name, names))
        return letters_of(kind)

    def _call(self, node: exp.Expr, name: str, arguments: Sequence[exp.Expr]) -> Letters:
        found = [self._argument(a) for a in arguments]
        if name in self.udfs:
            return letters_of(self.udfs[name])
        if name in TIME_WINDOWS:
            return "U"
        if any(isinstance(a, _SYNTAX) for a in arguments) or _has_syntax(node, name, arguments):
            return None
        counts = arity(name)
        if counts is not None and len(arguments) not in counts:
            most = max(counts)
            if len(arguments) <= most or not _takes_any(counts):
                raise error_at(node, wrong_count(name, counts, len(arguments)))
        if name in _OF_NUMBERS and self._is_declared_text(arguments[0]):
            raise error_at(node, text_as_number(arguments[0].name, f"{name} needs numbers"))
        answers = answers_of_function(name, found)
        if answers == "-":
            raise error_at(node, not_an_argument(name, [self._shown(a) for a in arguments]))
        return _one(answers)

    def _argument(self, node: exp.Expr) -> Letters:
        if isinstance(node, _SYNTAX):
            return None
        found = self._letters(node)
        inner = node.this if isinstance(node, exp.Neg) else node
        # Spark casts a number that is written out to what a function needs, if it fits.
        return "ILDN" if isinstance(inner, exp.Literal) and not inner.is_string else found

    def _shown(self, node: exp.Expr) -> str:
        """Return the type of an expression for a person."""
        exact = self.kind(node)
        if exact is not None:
            return _sql(exact)
        found = self._letters(node)
        if found is None:
            return "an unknown type"
        if found == "U":
            return "STRUCT"
        return "DECIMAL" if found == "N" else "a number"


def _literal(node: exp.Literal) -> Letters:
    if node.is_string:
        return "Q"
    if not node.is_int:
        return "D" if "e" in str(node.this).lower() else "N"
    return "I" if int(node.this) < 2**31 else "L" if int(node.this) < 2**63 else None


def _one(answers: str) -> Letters:
    """Return the type of a result, if all answers that are no refusals agree."""
    kinds = set(answers) - {"-"}
    return kinds.pop() if len(kinds) == 1 and "?" not in kinds else None


def _only_this(node: exp.Expr) -> bool:
    given = [key for key, value in node.args.items() if value not in (None, False, [])]
    return given == ["this"]


def _has_syntax(node: exp.Expr, name: str, arguments: Sequence[exp.Expr]) -> bool:
    if isinstance(node.parent, exp.WithinGroup):
        return True
    return name in _WITH_UNIT and len(arguments) == 3


def _takes_any(counts: frozenset[int]) -> bool:
    # One that takes pairs took the last even number that was tried.
    return bool(counts & {ARITY_MAX - 1, ARITY_MAX})


def _is_wordy(text: str) -> bool:
    """Whether a text surely is no number: what has digits may be one in some notation."""
    words = ("inf", "infinity", "nan")
    return not any(c.isdigit() for c in text) and text.strip(" +-").lower() not in words


def _type(node: exp.DataType) -> str | None:
    try:
        return spark_type(node)
    except SqlError:
        # A type that Spark cannot hold is refused where the text is generated.
        return None


def _cast_kind(kind: str) -> str:
    return "decimal(10,2)" if kind.startswith("decimal") else kind


def _fields(kind: str) -> list[str]:
    return split_type(kind[len("struct<") : -1])


def _sql(kind: str) -> str:
    return kind.upper().replace("STRING", "TEXT")
