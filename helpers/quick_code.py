"""Rewrites what Jinja2 compiles a template to, so that its sandbox is asked only where that decides something.

Most of what templates ask is a value of a message, a method of a text or the number of a loop's turn. These are written
out, for objects of exactly Python's types; all else is asked as before. Code of another form, as other versions of Jinja
may make, stays as it is, and is slower.
"""

import ast
import re
import sys

OF_DICT = frozenset(dir(dict))
OF_TEXT = frozenset(name for name in dir(str) if not name.startswith(("_", "format")))
OF_TURN = {"index0": "{0}", "index": "({0} + 1)", "first": "({0} == 0)"}


def expression(code):
    return ast.parse(code, mode="eval").body


def asks(code, method):
    """Returns whether code is a call of environment.METHOD."""
    return isinstance(code, ast.Call) and ast.unparse(code.func) == f"environment.{method}"


class QuickCode(ast.NodeTransformer):
    """Makes the quick code. The name `it` is none of Jinja's."""

    def __init__(self):
        self.numbers = set()  # names of loops that are the number of their turn

    def visit_For(self, loop):
        head = re.match(r"for .*, (l_\d+_loop) in LoopContext\((.*), undefined\):\n(?s:(.*))", ast.unparse(loop))
        uses = head and re.findall(rf"environment\.getattr\({head[1]}, '(\w+)'\)|\b{head[1]}\b", head[3])
        functions = [ast.unparse(inner) for inner in ast.walk(loop) if isinstance(inner, ast.FunctionDef)]
        if not uses or not all(use in OF_TURN for use in uses) or any(head[1] in code for code in functions):
            return self.generic_visit(loop)  # a macro may be called after the loop
        loop.target.elts.reverse()
        loop.iter = expression(f"enumerate({head[2]})")
        self.numbers.add(head[1])
        self.generic_visit(loop)
        self.numbers.remove(head[1])
        return loop

    def visit_Call(self, call):
        if asks(call, "getattr"):
            return self.value(call, call.args[1].value)
        if asks(call, "call") and asks(call.args[1], "getattr"):
            of, name = call.args[1].args
            if name.value in OF_TEXT and ast.unparse(of) not in self.numbers:
                return self.method(call, of, name.value)
        return self.generic_visit(call)

    def value(self, call, name):
        loop = ast.unparse(call.args[0])
        if loop in self.numbers:
            return expression(OF_TURN[name].format(loop))
        self.generic_visit(call)
        if name in OF_DICT:
            return call
        quick = f"it[{name!r}] if type(it := {ast.unparse(call.args[0])}) is dict and {name!r} in it"
        return expression(f"{quick} else environment.getattr(it, {name!r})")

    def method(self, call, of, name):
        call.args[1] = of
        self.generic_visit(call)
        asked = f"environment.asked(context, environment.getattr(it, {name!r}))"
        quick = expression(f"(it.{name} if type(it := {ast.unparse(call.args[1])}) is str else {asked})()")
        quick.args = call.args[2:]
        for given in call.keywords:
            is_private = given.arg in ("_loop_vars", "_block_vars")
            (quick.func.orelse if is_private else quick).keywords.append(given)
        return quick


def quick_code(source):
    """Returns the syntax tree of the quick code for Jinja's, or that itself where Python cannot write trees down."""
    if sys.version_info < (3, 9):
        return source
    return ast.fix_missing_locations(QuickCode().visit(ast.parse(source)))
