# SPDX-License-Identifier: Apache-2.0
"""What type checkers are told (PEP 561): everything public has types, and the stub of the native half says what that has."""

import ast
import pathlib

import pytest

import coeval
from coeval import _native

FOLDER = pathlib.Path(coeval.__file__).parent
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def parsed(name):
    return ast.parse((FOLDER / name).read_text())


def is_public(name):
    return not name.startswith("_") or name == "__arrow_c_stream__"


def test_checkers_are_told_that_there_are_types():
    assert (FOLDER / "py.typed").is_file()


def test_the_stub_says_what_the_native_half_has():
    told = {node.name: node for node in parsed("_native.pyi").body if isinstance(node, (ast.ClassDef, *FUNCTIONS))}
    assert set(told) == {name for name in vars(_native) if is_public(name)}
    for name, node in told.items():
        if isinstance(node, ast.ClassDef):
            members = {member.name for member in node.body if isinstance(member, FUNCTIONS)} - {"__new__"}
            assert members == {member for member in vars(getattr(_native, name)) if is_public(member)}, name


def functions_of(body):
    """The public functions of a module, and the public methods of its classes."""
    for node in body:
        if isinstance(node, FUNCTIONS) and (is_public(node.name) or node.name == "__init__"):
            yield node
        elif isinstance(node, ast.ClassDef) and is_public(node.name):
            yield from functions_of(node.body)


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.py")))
def test_everything_public_has_types(name):
    for function in functions_of(parsed(name).body):
        given = function.args
        arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        bare = [one.arg for one in arguments if one and not one.annotation and one.arg not in ("self", "cls")]
        assert not bare and function.returns is not None, f"{function.name}, line {function.lineno}: {bare}"
