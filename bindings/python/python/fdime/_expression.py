"""Conversion of a Python function of u to an expression, by calling it with a symbol.

With an expression, a custom f has exact derivatives, runs at full speed, and can be part of a plan.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

_BINARY = {
    np.add: "+",
    np.subtract: "-",
    np.multiply: "*",
    np.divide: "/",
    np.power: "^",
    np.float_power: "^",
}
_FUNCTIONS = {
    np.log: "ln",
    np.exp: "exp",
    np.sqrt: "sqrt",
    np.log2: "log2",
    np.log10: "log10",
    np.sin: "sin",
    np.cos: "cos",
    np.tan: "tan",
    np.arctan: "atan",
    np.sinh: "sinh",
    np.cosh: "cosh",
    np.tanh: "tanh",
}
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "^": 3}
_ATOM = 4


class _Symbol(NDArrayOperatorsMixin):
    """An expression in u that records the operations on it."""

    def __init__(self, text: str, precedence: int = _ATOM) -> None:
        self.text, self.precedence = text, precedence

    def _as_operand(self) -> str:
        return self.text if self.precedence == _ATOM else f"({self.text})"

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **_: Any) -> Any:
        if method != "__call__":
            return NotImplemented
        if ufunc in _BINARY:
            left, right = (_symbol(value) for value in inputs)
            sign = _BINARY[ufunc]
            return _Symbol(f"{left._as_operand()}{sign}{right._as_operand()}", _PRECEDENCE[sign])
        value = _symbol(inputs[0])
        if ufunc in _FUNCTIONS:
            return _Symbol(f"{_FUNCTIONS[ufunc]}({value.text})")
        if ufunc is np.negative:
            return 0.0 - value
        if ufunc is np.square:
            return value**2.0
        if ufunc is np.reciprocal:
            return 1.0 / value
        if ufunc is np.log1p:
            return np.log(1.0 + value)
        if ufunc is np.expm1:
            return np.exp(value) - 1.0
        raise TypeError(f"f uses np.{ufunc.__name__}, which cannot be part of an expression")

    def __bool__(self) -> bool:
        raise TypeError("f branches on the value of u, which cannot be part of an expression")

    def __float__(self) -> float:
        raise TypeError(
            "f must be made of arithmetic and NumPy functions, such as u * np.log(u); "
            "functions of the math module accept only numbers"
        )


def _symbol(value: Any) -> _Symbol:
    if isinstance(value, _Symbol):
        return value
    number = float(value)
    text = np.format_float_positional(abs(number), trim="-")
    return _Symbol(text) if number >= 0 else _Symbol(f"0-{text}", _PRECEDENCE["-"])


def trace_expression(f: Callable[[Any], Any]) -> str:
    """Return the expression in u that a function computes."""
    try:
        result = f(_Symbol("u"))
    except (TypeError, AttributeError) as error:
        problem = f"this function of u cannot be converted to an expression: {error}"
        raise TypeError(problem) from None
    if not isinstance(result, _Symbol):
        raise ValueError(f"f(u) = {result!r} does not depend on u")
    return result.text


def evaluate(expression: str, u: Any, functions: Mapping[str, Callable[[Any], Any]]) -> Any:
    """Return the value of an expression at u, a number or a tensor, with the given functions."""

    def value(node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int() | float() as number):
                return float(number)
            case ast.Name(id="u"):
                return u
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return value(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                return _ARITHMETIC[type(op)](value(left), value(right))
            case ast.Call(func=ast.Name(id=name), args=[argument]) if name in functions:
                return functions[name](value(argument))
        raise ValueError(f"f(u) = {expression}: cannot evaluate {ast.unparse(node)}")

    try:
        tree = ast.parse(expression.strip().replace("^", "**"), mode="eval")
    except SyntaxError:
        raise ValueError(f"f(u) = {expression}: write it as in 2*u*ln(u)") from None
    return value(tree.body)


_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
