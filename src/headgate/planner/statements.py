"""The statements as the parser returns them."""

from __future__ import annotations

from sqlglot import exp


class TableColumn(exp.Expression):
    """`name type constraints`: `metadata` is a string literal, `generated` an expression."""

    arg_types = {  # noqa: RUF012 - the shape sqlglot asks for
        "this": True,
        "kind": False,
        "not_null": False,
        "primary_key": False,
        "metadata": False,
        "generated": False,
    }


class Watermark(exp.Expression):
    """`WATERMARK FOR this [AS expression]`."""

    arg_types = {"this": True, "expression": False}  # noqa: RUF012


class TablePrimaryKey(exp.Expression):
    """`PRIMARY KEY (a, b)` among the columns."""

    arg_types = {"expressions": True}  # noqa: RUF012


class TableOption(exp.Expression):
    """`key = value` of a WITH clause; `this` is an identifier with the whole key."""

    arg_types = {"this": True, "expression": True}  # noqa: RUF012


class CreateTable(exp.Expression):
    """`expressions` are the elements between the parentheses; None if there were none."""

    arg_types = {  # noqa: RUF012
        "this": True,
        "expressions": False,
        "options": False,
        "temporary": False,
    }


class CreateView(exp.Expression):
    """`CREATE VIEW this (expressions) AS query`, and `CREATE TABLE this AS query`."""

    arg_types = {"this": True, "expressions": False, "query": True}  # noqa: RUF012


class SetOption(exp.Expression):
    """`SET this = expression`."""

    arg_types = {"this": True, "expression": True}  # noqa: RUF012


class Unparsed(exp.Expression):
    """A statement that cannot be parsed: `error` says why, `this` is the table it names, if any."""

    arg_types = {"this": False, "error": True}  # noqa: RUF012
