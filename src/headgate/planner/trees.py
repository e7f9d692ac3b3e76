"""Changing syntax trees in time that follows their size.

sqlglot's `replace` looks at every sibling, and a copy on each level of a tree copies its leaves as
often as they are deep: a CASE of many thousand branches would be planned for minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

Change = Callable[[exp.Expr], exp.Expr | None]
Children = Callable[[exp.Expr], Iterator[exp.Expr]]


def _all_children(node: exp.Expr) -> Iterator[exp.Expr]:
    return node.iter_expressions()


def copied(node: exp.Expr, change: Change, children: Children = _all_children) -> exp.Expr:
    """Return a copy of the tree with what `change` made of its nodes.

    `change` sees the nodes of the original, parents first and in the order of the text. If it
    returns None, the node stays as it is and its children are looked at.
    """
    changed = change(node)
    if changed is not None:
        return changed
    result = node.copy()
    waiting = _pairs(node, result, children)
    while waiting:
        old, new = waiting.pop()
        changed = change(old)
        if changed is None:
            waiting += _pairs(old, new, children)
        else:
            put(new, changed)
    return result


def _pairs(old: exp.Expr, new: exp.Expr, children: Children) -> list[tuple[exp.Expr, exp.Expr]]:
    """Return the children of a node and those of its copy, the last ones first."""
    return list(zip(children(old), children(new), strict=True))[::-1]


def put(old: exp.Expr, new: exp.Expr) -> None:
    """Put a node into the place of another one, which has a parent."""
    parent, key, index = old.parent, old.arg_key, old.index
    assert parent is not None
    assert key is not None
    if index is None:
        parent.args[key] = new
    else:
        parent.args[key][index] = new
    new.parent, new.arg_key, new.index = parent, key, index
    old.parent = None
