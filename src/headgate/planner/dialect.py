"""The dialect: Postgres as sqlglot reads it, with the statements of streaming SQL.

`CREATE TABLE` has watermarks, metadata columns and connector options, which no other dialect
writes this way, so it is parsed here from its tokens; everything else is sqlglot's.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import Token, TokenType

from headgate.planner import statements
from headgate.planner.spark_functions import SPARK_FUNCTIONS

# Functions of Spark that sqlglot must understand: they have syntax of their own (DISTINCT,
# ORDER BY, aliases), or the planner asks for them by class. All others keep their names, so that
# they mean exactly what they mean in Spark.
_UNDERSTOOD_WORDS = """
ARRAY BIT_AND BIT_OR BIT_XOR COALESCE EXPLODE IF INLINE POSEXPLODE STRUCT
"""
_UNDERSTOOD = frozenset(_UNDERSTOOD_WORDS.split())

# Functions that take `x -> expression`; elsewhere an arrow is an access to JSON.
_HIGHER_ORDER_WORDS = """
aggregate array_sort exists filter forall map_filter map_zip_with reduce transform transform_keys
transform_values zip_with
"""
_HIGHER_ORDER = frozenset(_HIGHER_ORDER_WORDS.split())

_WINDOW_TABLES = frozenset({"TUMBLE", "HOP", "SESSION", "CUMULATE"})

_AGGREGATES = frozenset(
    name
    for kind in exp.ALL_FUNCTIONS
    if issubclass(kind, exp.AggFunc | exp.RowNumber)
    for name in kind.sql_names()
) - {"PERCENTILE_CONT", "PERCENTILE_DISC"}


def _is_understood(name: str) -> bool:
    if name == "DATE_BIN":
        # Its third argument is an origin here, where sqlglot expects a unit.
        return False
    return name in _UNDERSTOOD or name in _AGGREGATES or name.lower() not in SPARK_FUNCTIONS


def _placed(node: exp.Expr | None, token: Token) -> exp.Expr | None:
    """Give a node the position of its first word, for errors about all of it."""
    if isinstance(node, exp.Expr) and node.meta.get("start") is None and token.text:
        node.update_positions(token)
    return node


class HeadgateParser(PostgresParser):
    """Parser of the statements that differ from Postgres."""

    FUNCTIONS: ClassVar = {
        name: builder for name, builder in PostgresParser.FUNCTIONS.items() if _is_understood(name)
    }
    FUNCTION_PARSERS: ClassVar = {
        name: parse
        for name, parse in PostgresParser.FUNCTION_PARSERS.items()
        if name not in ("CEIL", "FLOOR", "CHR", "CHAR", "DECODE", "INITCAP", "JSON_OBJECT")
    }
    # `GROUP BY window` and `GROUP BY offset` name columns.
    QUERY_MODIFIER_PARSERS: ClassVar = {
        token: parse
        for token, parse in PostgresParser.QUERY_MODIFIER_PARSERS.items()
        if token != TokenType.WINDOW
    }
    QUERY_MODIFIER_TOKENS: ClassVar = PostgresParser.QUERY_MODIFIER_TOKENS - {
        TokenType.WINDOW,
        TokenType.OFFSET,
    }
    FUNC_TOKENS: ClassVar = {*PostgresParser.FUNC_TOKENS, TokenType.SESSION}
    JSON_OPERATORS: ClassVar = {
        **PostgresParser.JSON_OPERATORS,
        TokenType.ARROW: lambda self, this, path: self._json_call("json_get", this, path),
        TokenType.DARROW: lambda self, this, path: self._json_call("json_as_text", this, path),
        TokenType.PLACEHOLDER: lambda self, this, path: self._json_call(
            "json_contains", this, path
        ),
    }
    STATEMENT_PARSERS: ClassVar = {
        **PostgresParser.STATEMENT_PARSERS,
        TokenType.CREATE: lambda self: self._parse_create_statement(),
        TokenType.SET: lambda self: self._parse_set_statement(),
    }

    def _parse_statement(self) -> exp.Expr | None:
        token = self._curr
        return _placed(super()._parse_statement(), token)

    def _parse_select(self, *args: Any, **options: Any) -> exp.Expr | None:
        token = self._curr
        return _placed(super()._parse_select(*args, **options), token)

    def _parse_function_call(self, *args: Any, **options: Any) -> exp.Expr | None:
        # Functions with a syntax of their own (CAST, SUBSTRING, TRIM) get no place from sqlglot.
        token = self._curr
        return _placed(super()._parse_function_call(*args, **options), token)

    def _parse_table(self, *args: Any, **options: Any) -> exp.Expr | None:
        # `FROM TABLE(TUMBLE(TABLE orders, ...))` is how Flink writes a window. With `schema` it is
        # the target of an INSERT with its columns, which may have any name.
        begin = self._index + 2 * (self._is_word("TABLE") and self._next.text == "(")
        call = self._tokens[begin : begin + 2]
        words = [token.text.upper() for token in call]
        if not options.get("schema") and words[1:] == ["("] and words[0] in _WINDOW_TABLES:
            self.raise_error(
                "Write GROUP BY tumble(interval '1 minute') or hop(slide, width) over the table"
                " itself, instead of the table of windows",
                call[0],
            )
        return super()._parse_table(*args, **options)

    def _json_call(self, name: str, this: exp.Expr | None, path: exp.Expr | None) -> exp.Expr:
        if this is None or path is None:
            self.raise_error("Expected a value on both sides of the JSON operator")
        return self.expression(exp.Anonymous(this=name, expressions=[this, path]))

    def _parse_function_args(self, alias: bool = False) -> list[exp.Expr]:
        name = self._tokens[self._index - 2].text.lower() if self._index >= 2 else ""
        saved = self.LAMBDAS
        # The class attribute is shadowed for this call only: an arrow among the arguments of
        # `coalesce(value -> 'a', 'b')` is not the beginning of a lambda.
        self.LAMBDAS = PostgresParser.LAMBDAS if name in _HIGHER_ORDER else {}  # type: ignore[misc]
        try:
            return super()._parse_function_args(alias)
        finally:
            self.LAMBDAS = saved  # type: ignore[misc]

    def _parse_set_statement(self) -> exp.Expr:
        name = self._parse_id_var(any_token=True)
        if name is None:
            self.raise_error("Expected the name of a setting")
        if not self._match(TokenType.EQ) and not self._match_text_seq("TO"):
            self.raise_error("Expected = after the name of the setting")
        return self.expression(statements.SetOption(this=name, expression=self._option_value()))

    def _parse_create_statement(self) -> exp.Expr:
        self._match_pair(TokenType.OR, TokenType.REPLACE)
        temporary = bool(self._match(TokenType.TEMPORARY))
        if self._match(TokenType.VIEW):
            kind = "view"
        elif self._match(TokenType.TABLE):
            kind = "table"
        else:
            self.raise_error("Expected TABLE or VIEW after CREATE")
            kind = "table"
        self._parse_exists(not_=True)
        name = self._parse_id_var(any_token=False) or self._parse_string_name()
        if name is None:
            self.raise_error(f"Expected the name of the {kind}")
        if kind == "view":
            return self._parse_view_tail(name)
        return self._parse_table_tail(name, temporary)

    def _parse_string_name(self) -> exp.Expr | None:
        token = self._curr
        if not self._match(TokenType.STRING):
            return None
        return exp.Identifier(this=token.text, quoted=True).update_positions(token)

    def _parse_view_tail(self, name: exp.Expr | None) -> exp.Expr:
        columns = None
        if self._match(TokenType.L_PAREN, advance=False):
            columns = self._parse_wrapped_csv(lambda: self._parse_id_var(any_token=True))
        if not self._match(TokenType.ALIAS):
            self.raise_error("Expected AS and a query")
        return self._view(name, columns)

    def _view(self, name: exp.Expr | None, columns: list[exp.Expr] | None) -> exp.Expr:
        query = self._parse_ddl_select()
        if query is None:
            self.raise_error("Expected a query")
        return self.expression(
            statements.CreateView(this=name, expressions=columns or [], query=query)
        )

    def _parse_table_tail(self, name: exp.Expr | None, temporary: bool) -> exp.Expr:
        elements = None
        if self._match(TokenType.L_PAREN, advance=False):
            elements = self._parse_wrapped_csv(self._parse_table_element, optional=False)
        options: list[exp.Expr] | None = None
        if self._match(TokenType.WITH):
            options = self._parse_wrapped_csv(self._parse_table_option)
        if self._match(TokenType.ALIAS):
            if elements or options or temporary:
                self.raise_error("CREATE TABLE ... AS takes a query, without columns and options")
            return self._view(name, None)
        return self.expression(
            statements.CreateTable(
                this=name, expressions=elements, options=options or [], temporary=temporary
            )
        )

    def _parse_table_element(self) -> exp.Expr | None:
        if self._curr.token_type == TokenType.R_PAREN:
            return None  # after a trailing comma
        if self._is_word("WATERMARK") and self._next.text.upper() == "FOR":
            return self._parse_watermark()
        if self._is_word("PRIMARY") or self._curr.token_type == TokenType.PRIMARY_KEY:
            index = self._index
            if self._match_primary_key() and self._match(TokenType.L_PAREN, advance=False):
                names = self._parse_wrapped_csv(lambda: self._parse_id_var(any_token=True))
                return self.expression(statements.TablePrimaryKey(expressions=names))
            self._retreat(index)
        return self._parse_table_column()

    def _is_word(self, word: str) -> bool:
        return self._curr.token_type != TokenType.IDENTIFIER and self._curr.text.upper() == word

    def _match_primary_key(self) -> bool:
        if self._match(TokenType.PRIMARY_KEY):
            return True
        return bool(self._match_text_seq("PRIMARY", "KEY"))

    def _parse_watermark(self) -> exp.Expr:
        start = self._curr
        self._advance(2)
        name = self._parse_id_var(any_token=True)
        if name is None:
            self.raise_error("Expected a column after WATERMARK FOR")
        expression = None
        if self._match(TokenType.ALIAS):
            expression = self._parse_disjunction()
            if expression is None:
                self.raise_error("Expected an expression after AS")
        return self.expression(statements.Watermark(this=name, expression=expression), start)

    def _parse_table_column(self) -> exp.Expr | None:
        name = self._parse_id_var(any_token=True)
        if name is None:
            self.raise_error("Expected the name of a column")
        token = self._curr
        kind = self._parse_types(schema=True)
        if isinstance(kind, exp.DataType):
            kind.update_positions(token)
            if self._match_text_seq("UNSIGNED"):
                kind = self._unsigned(kind)
        column = statements.TableColumn(this=name, kind=kind)
        while self._parse_table_column_constraint(column):
            continue
        return self.expression(column)

    def _unsigned(self, kind: exp.DataType) -> exp.DataType:
        unsigned = {
            exp.DType.BIGINT: exp.DType.UBIGINT,
            exp.DType.INT: exp.DType.UINT,
            exp.DType.SMALLINT: exp.DType.USMALLINT,
            exp.DType.TINYINT: exp.DType.UTINYINT,
        }.get(kind.this)
        if unsigned is None:
            self.raise_error("UNSIGNED belongs to an integer type")
            return kind
        return exp.DataType(this=unsigned).update_positions(kind)

    def _parse_table_column_constraint(self, column: statements.TableColumn) -> bool:
        if self._match_pair(TokenType.NOT, TokenType.NULL):
            column.set("not_null", True)
            return True
        if self._match(TokenType.NULL):
            return True
        if self._match_primary_key():
            column.set("primary_key", True)
            return True
        if self._match_text_seq("METADATA"):
            if not self._match_text_seq("FROM"):
                self.raise_error("Expected FROM after METADATA")
            column.set("metadata", self._parse_string())
            if column.args.get("metadata") is None:
                self.raise_error("Expected the metadata key as a string")
            return True
        if self._match_text_seq("GENERATED"):
            self._match_text_seq("ALWAYS")
            if not self._match(TokenType.ALIAS):
                self.raise_error("Expected AS after GENERATED ALWAYS")
            column.set("generated", self._parse_wrapped(self._parse_disjunction))
            if not self._match_text_seq("STORED"):
                self._match_text_seq("VIRTUAL")
            return True
        return False

    def _parse_table_option(self) -> exp.Expr | None:
        if self._curr.token_type == TokenType.R_PAREN:
            return None  # after a trailing comma
        first = self._curr
        words = [self._option_word()]
        while self._match(TokenType.DOT):
            words.append(self._option_word())
        key = exp.Identifier(this=".".join(words), quoted=True).update_positions(first)
        if not self._match(TokenType.EQ):
            self.raise_error("Expected = after the option's name")
        return self.expression(statements.TableOption(this=key, expression=self._option_value()))

    def _option_word(self) -> str:
        token: Token = self._curr
        word = token.text
        if not word or token.token_type in (TokenType.EQ, TokenType.COMMA, TokenType.R_PAREN):
            self.raise_error("Expected the name of an option")
        self._advance()
        return word

    def _option_value(self) -> exp.Expr:
        value = self._parse_bitwise() or self._parse_var(any_token=True)
        if value is None:
            self.raise_error("Expected a value")
            return exp.Null()
        return value


class Headgate(Postgres):
    """The SQL of pipelines."""

    # `a / b` means what it means in Spark: no integer division.
    TYPED_DIVISION = False
    # The rule for array indices knows that they start at 1.
    INDEX_OFFSET = 0

    class Tokenizer(Postgres.Tokenizer):
        KEYWORDS: ClassVar = {
            **Postgres.Tokenizer.KEYWORDS,
            # Thirty-two bits, as in Spark.
            "FLOAT": TokenType.FLOAT,
            # Integer division, as in Spark.
            "DIV": TokenType.DIV,
        }
        # `1L` and `2.5D`, as in Spark. Not `1.5BD`: it is the same as `1.5`, but for sqlglot, which
        # does not know its precision.
        NUMERIC_LITERALS: ClassVar = {
            suffix: kind
            for suffix, kind in Spark.Tokenizer.NUMERIC_LITERALS.items()
            if suffix != "BD"
        }
        # `r'\\d+'`, as in Spark: nothing is escaped in either kind of string here.
        RAW_STRINGS: ClassVar = Spark.Tokenizer.RAW_STRINGS

    Parser = HeadgateParser
