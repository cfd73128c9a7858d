"""Wrong arguments: errors of one line that name the argument.

A C++ function lists its signatures when no argument list fits. The C++ functions of this package are wrapped: the wrapper reads
that list and names the argument that fits none of them."""

from __future__ import annotations

import ast
import difflib
import functools
import inspect
import json
import os
import re
import typing
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar, Union

import numpy as np
import numpy.typing as npt

from . import _weft
from .errors import InvalidArgumentError
from .options import OTHER_NAMES, About

_Function = TypeVar("_Function", bound=Callable[..., Any])

_FAILED = "incompatible function arguments"
_NUMBERS = {"int": "__index__", "float": "__float__"}
_CLASSES: dict[str, Any] = {"bool": bool, "bytes": bytes, "tuple": tuple, "dict": Mapping, "Mapping": Mapping}


def _one_line(value: object) -> str:
    return " ".join(str(value).split())


def _shown(value: object) -> str:
    try:
        told = _one_line(repr(value))
    except Exception:
        told = f"an object of {type(value).__name__}"
    return told if len(told) <= 80 else told[:77] + "..."


def wrong(name: str, value: object, expected: str = "") -> TypeError:
    """The error of an argument that cannot be this value."""
    return TypeError(f"{name} cannot be {_shown(value)}" + (f"; it must be {expected}" if expected else ""))


def need(kind: Any, name: str, value: object, expected: str) -> None:
    """Raises TypeError unless the value is of this class."""
    if not isinstance(value, kind):
        raise wrong(name, value, expected)


def items(name: str, value: object, expected: str) -> list[Any]:
    """The items of any kind of list, but not of a string."""
    if isinstance(value, (str, bytes, bytearray, Mapping)):
        raise wrong(name, value, expected)
    try:
        return [*value]  # type: ignore[misc]
    except TypeError:
        raise wrong(name, value, expected) from None


def path(name: str, value: object) -> Path:
    """A file's name."""
    need((str, os.PathLike), name, value, "a path")
    if not os.fspath(value):  # type: ignore[call-overload]
        raise InvalidArgumentError(f"{name} is empty; it must be a path")
    return Path(value).expanduser()  # type: ignore[arg-type]


def array(name: str, value: npt.ArrayLike, dtype: Any = None) -> npt.NDArray[Any]:
    """Its numbers as a C-contiguous array. TypeError where another type would change numbers by more than rounding."""
    try:
        found = np.asarray(value, order="C")
        if dtype is None or found.dtype == dtype:
            return found
        if found.dtype.kind in "cmMSU":
            raise TypeError(f"its elements have the type {found.dtype}")
        with np.errstate(all="ignore"):
            made = found.astype(dtype)
        if made.dtype.kind in "iu" and not np.array_equal(made, found):
            raise TypeError(f"it has numbers that {made.dtype} cannot represent")
        if made.dtype.kind == "f" and np.isfinite(found[np.isinf(made)].astype(np.float64)).any():
            raise TypeError("it has numbers that are too large")
        return made
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        numbers = "numbers" if dtype is None else f"{np.dtype(dtype)} numbers"
        raise TypeError(f"{name} must be an array of {numbers}: {_one_line(error)}") from None


def bf16(name: str, value: npt.ArrayLike) -> npt.NDArray[np.uint16]:
    """The bits of numbers, rounded to the nearest. 16-bit values that are not floats are taken as bits."""
    found = array(name, value)
    if found.dtype.itemsize == 2 and found.dtype.kind in "Viu":
        return found.view(np.uint16)
    bits = array(name, found, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(bits.view(np.float32)), 0x7FC0, rounded).astype(np.uint16)


def written_as_json(name: str, value: object) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{name} cannot be written as JSON: {_one_line(error)}") from None


# Options: by the tables of weft.options.


@functools.lru_cache(maxsize=None)
def known(table: type) -> dict[str, tuple[Any, About]]:
    """The type of each option, and its About."""
    found = {}
    for name, kind in typing.get_type_hints(table, include_extras=True).items():
        about = next((one for one in getattr(kind, "__metadata__", ()) if isinstance(one, About)), About(""))
        found[name] = (typing.get_args(kind)[0] if hasattr(kind, "__metadata__") else kind, about)
    return found


_LARGEST = {int: 2**31 - 1, float: float(np.finfo(np.float32).max)}  # As C++ has them.
_VAST = 1e9  # A bound that is not worth saying.
_NOUNS = {int: ("an int", "ints"), float: ("a number", "numbers"), str: ("a str", "strs"), Path: ("a path", "paths"),
          bool: ("True or False", "True or False"), Any: ("anything", "anything")}  # fmt: skip


def _bounds(kind: type, about: About) -> tuple[float, float]:
    largest = _LARGEST[kind]
    return -largest - (kind is int) if about.least is None else about.least, largest if about.most is None else about.most


def _is_of(kind: Any, value: object) -> bool:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is Union:
        return any(_is_of(one, value) for one in inner)
    if origin is Literal:
        return isinstance(value, str) and value in inner
    if origin is Sequence:
        return isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (str, bytes)) and all(
            _is_of(inner[0], one) for one in value
        )
    if origin is tuple:
        return isinstance(value, (tuple, list)) and len(value) == len(inner) and all(map(_is_of, inner, value))
    if origin is Mapping:
        return isinstance(value, Mapping) and all(_is_of(inner[0], k) and _is_of(inner[1], v) for k, v in value.items())
    if kind is bool or isinstance(value, (bool, np.bool_)):
        return kind in (bool, Any) and isinstance(value, (bool, np.bool_))
    if kind in _LARGEST:
        return hasattr(type(value), _NUMBERS[kind.__name__]) and not isinstance(value, (np.ndarray, np.complexfloating))
    if kind is Path:
        return isinstance(value, os.PathLike)
    return kind is Any or (isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value))


def _is_in_range(kind: Any, value: Any, about: About) -> bool:
    """Whether the numbers of a value of the right kind are in the range."""
    inner = typing.get_args(kind)
    if typing.get_origin(kind) is Union:
        return any(_is_of(one, value) and _is_in_range(one, value, about) for one in inner)
    if typing.get_origin(kind) is Sequence:
        return all(_is_in_range(inner[0], one, about) for one in value)
    if typing.get_origin(kind) is tuple:
        return all(_is_in_range(one, v, about) for one, v in zip(inner, value))
    if typing.get_origin(kind) is Mapping:
        return all(_is_in_range(inner[1], one, about) for one in value.values())
    if kind not in _LARGEST:
        return True
    least, most = _bounds(kind, about)
    return bool(least <= (value.__index__() if kind is int else float(value)) <= most)


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:g}"


def described(kind: Any, about: About, plural: bool = False) -> str:
    """A description of an option's valid values."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is Union:
        return " or ".join(described(one, about, plural) for one in inner)
    if origin is Literal:
        return "one of " + ", ".join(map(repr, inner))
    if origin is Sequence:
        return ("lists of " if plural else "a list of ") + described(inner[0], about, True)
    if origin is tuple:
        return ("pairs (" if plural else "a pair (") + ", ".join(described(one, about) for one in inner) + ")"
    if origin is Mapping:
        of = "" if inner[1] is Any else f" of {described(inner[0], about, True)} to {described(inner[1], about, True)}"
        return ("dictionaries" if plural else "a dictionary") + of
    noun = _NOUNS[kind][plural]
    least, most = about.least, about.most
    if kind not in _LARGEST or least is None or least <= -_VAST:
        return noun
    return f"{noun} >= {_number(least)}" if most is None or most >= _VAST else f"{noun} from {_number(least)} to {_number(most)}"


def similar(name: str, names: Iterable[str]) -> str:
    """The most similar name, for the end of a message, or all names if none is similar."""
    names = list(names)
    other = OTHER_NAMES.get(name.lower())
    close = [other] if other in names else difflib.get_close_matches(name.lower(), names, 1, 0.7)
    return f"did you mean '{close[0]}'?" if close else "there are " + ", ".join(sorted(names))


def options(given: Mapping[str, Any], table: type) -> dict[str, Any]:
    """Options as C++ takes them; None leaves an option out. TypeError for one that is unknown or of another type,
    InvalidArgumentError for a number that is out of range."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known(table):
            raise TypeError(f"there is no option '{name}'; {similar(name, known(table))}")
        if value is None:
            continue
        kind, about = known(table)[name]
        if not _is_of(kind, value):
            raise wrong(name, value, described(kind, about) + ", or None for the default")
        if not _is_in_range(kind, value, about):
            bits = " of 32 bits" if about.most is None and isinstance(value, int) and value.bit_length() > 31 else ""
            expected = described(kind, about) + bits
            raise InvalidArgumentError(f"{name} is {_shown(value)}; it must be {expected}, or None for the default")
        try:
            made = value if about.made is None else about.made(value)
        except ValueError:
            raise wrong(name, value, described(kind, about) + ", or None for the default") from None
        if made is not None:
            found[name] = bool(made) if isinstance(made, np.bool_) else made
    return found


def listed(table: type) -> str:
    """The options of a table, for a docstring."""
    defaults = {name: f"{value:.6g}" if isinstance(value, float) else repr(value) for name, value in _weft.defaults().items()}
    return "\n".join(
        f"    {name}: {described(kind, about)} (default {about.default or defaults.get(name, 'none')}). {about.meaning}"
        for name, (kind, about) in known(table).items()
    )


def takes(table: type) -> Callable[[_Function], _Function]:
    """Lists the options that a function takes in its docstring."""

    def document(function: _Function) -> _Function:
        function.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\nOptions:\n{listed(table)}"
        return function

    return document


def renamed(**names: str) -> Callable[[_Function], _Function]:
    """Lets a function take old names of parameters, {old: new}, with a DeprecationWarning."""

    def wrap(function: _Function) -> _Function:
        @functools.wraps(function)
        def wrapper(*given: Any, **named: Any) -> Any:
            for old, new in names.items():
                if old in named:
                    warnings.warn(f"{old} is deprecated: use {new}", DeprecationWarning, stacklevel=2)
                    named.setdefault(new, named.pop(old))
            return function(*given, **named)

        return typing.cast(_Function, wrapper)

    return wrap


# Functions of C++.


def _name(kind: ast.expr) -> str:
    return kind.attr if isinstance(kind, ast.Attribute) else kind.id if isinstance(kind, ast.Name) else ""


def _fits(kind: ast.expr, value: object, bits: int) -> bool:
    """Whether a value fits the kind that a signature names; integers may have at most `bits` bits. True for kinds that
    only C++ knows."""
    if isinstance(kind, ast.BinOp):
        return _fits(kind.left, value, bits) or _fits(kind.right, value, bits)
    if isinstance(kind, ast.Constant):
        return value is None
    if isinstance(kind, ast.Subscript):
        inner = kind.slice.elts if isinstance(kind.slice, ast.Tuple) else [kind.slice]
        if _name(kind.value) == "Sequence":
            return isinstance(value, Sequence) and not isinstance(value, (str, bytes)) and all(
                _fits(inner[0], v, bits) for v in value
            )
        if _name(kind.value) == "tuple":
            return isinstance(value, Sequence) and len(value) == len(inner) and all(
                _fits(one, v, bits) for one, v in zip(inner, value)
            )
        if _name(kind.value) in ("dict", "Mapping"):
            return isinstance(value, Mapping) and all(
                _fits(inner[0], k, bits) and _fits(inner[1], v, bits) for k, v in value.items()
            )
        return _name(kind.value) != "NDArray" or isinstance(value, np.ndarray)
    name = _name(kind)
    if name in _NUMBERS:
        return hasattr(type(value), _NUMBERS[name]) and not (isinstance(value, int) and value.bit_length() > bits)
    if name == "PathLike":
        return hasattr(type(value), "__fspath__")
    if name == "str":
        return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)
    if name == "ndarray":
        return hasattr(type(value), "__dlpack__") or hasattr(type(value), "__array_interface__")
    known = _CLASSES.get(name) or getattr(_weft, name, None)
    return not isinstance(known, type) or isinstance(value, known)


def _readable(kind: ast.expr) -> str:
    text = re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", ast.unparse(kind))  # Without the modules.
    return text.replace("numpy.ndarray", "ndarray").replace("ndarray", "an array, contiguous and of its type").replace("os.", "")


def _described(value: object) -> str:
    return f"{type(value).__name__} of {value.dtype} {value.shape}" if isinstance(value, np.ndarray) else _shown(value)


def _explain(error: TypeError, given: tuple[Any, ...], named: dict[str, Any]) -> TypeError:
    function = str(error).split("(", 1)[0]
    # The signatures of arrays are not valid Python.
    lines = re.findall(r"^ +\d+\. (.*)$", re.sub(r"ndarray\[[^\[\]]*\]", "ndarray", str(error)), re.MULTILINE)
    try:
        signatures = [ast.parse(f"def {line}: ...").body[0].args for line in lines]  # type: ignore[attr-defined]
    except SyntaxError:
        return error
    kinds: dict[str, list[ast.expr]] = {}
    for arguments in signatures:
        for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
            if argument.annotation is not None:
                kinds.setdefault(argument.arg, []).append(argument.annotation)
    arguments = max(signatures, key=lambda one: len(one.args))
    names = [argument.arg for argument in [*arguments.posonlyargs, *arguments.args]]
    all_names = names + [argument.arg for argument in arguments.kwonlyargs]
    if len(given) > len(names):
        n_self = names[:1].count("self")
        return TypeError(f"{function}() takes {len(names) - n_self} arguments, not {len(given) - n_self}")
    values = dict(zip(names, given))
    for name, value in named.items():
        if name not in all_names:
            known = ", ".join(one for one in all_names if one != "self") or "none"
            return TypeError(f"{function}() has no argument '{name}'; it has {known}")
        if name in values:
            return TypeError(f"{function}() got {name} twice")
        values[name] = value
    for name in names[: len(names) - len(arguments.defaults)]:
        if name not in values:
            return TypeError(f"{function}() lacks the argument {name}")
    for bits in (1 << 30, 63, 31):  # A number that is too large is told where nothing is of a wrong kind.
        for name, value in values.items():
            if name in kinds and not any(_fits(kind, value, bits) for kind in kinds[name]):
                expected = " or ".join(dict.fromkeys(_readable(kind) for kind in kinds[name]))
                return wrong(f"{function}(): {name}", value, expected + (f" of at most {bits + 1} bits" if bits < 64 else ""))
    # All are of the right kinds, and one does not fit for another reason: too many axes, an array that is not contiguous.
    types = ", ".join(_readable(argument.annotation) for argument in signatures[0].args if argument.annotation)
    told = ", ".join(_described(value) for name, value in values.items() if name != "self")
    return TypeError(f"{function}() takes ({types}), and not these ({told})")


def _signature(function: Any) -> inspect.Signature:
    """For inspect and help(): of several signatures, the longest."""
    found: list[list[inspect.Parameter]] = []
    for text, _, defaults in function.__nb_signature__:
        # nanobind writes the defaults as \\0, \\1 and so on, and their values apart.
        line = re.sub(r"ndarray\[[^\[\]]*\]", "ndarray", text).replace("\\", "_")
        arguments = ast.parse(f"{line}: ...").body[0].args  # type: ignore[attr-defined]
        names = [*arguments.posonlyargs, *arguments.args]
        said = [defaults[int(one.id[1:])] if isinstance(one, ast.Name) else ast.literal_eval(one) for one in arguments.defaults]
        values = [inspect.Parameter.empty] * (len(names) - len(said)) + said
        found.append([
            inspect.Parameter(name.arg, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=value,
                              annotation=_readable(name.annotation) if name.annotation else inspect.Parameter.empty)
            for name, value in zip(names, values)
        ])  # fmt: skip
    return inspect.Signature(max(found, key=len))


def _clear(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except TypeError as error:
            if _FAILED not in str(error):
                raise
            explained = _explain(error, given, named)
        raise explained

    call.__signature__ = _signature(function)  # type: ignore[attr-defined]
    return call


def _wrap(place: Any) -> None:
    """Wraps the functions of a module or class and the methods of its classes. Operators raise Python's errors
    themselves."""
    for name, found in list(vars(place).items()):
        if type(found).__name__ == "nb_method" and not name.startswith("__"):
            setattr(place, name, _clear(found))
        elif type(found).__name__ == "nb_func" and not name.startswith("__"):
            setattr(place, name, _clear(found) if isinstance(place, ModuleType) else staticmethod(_clear(found)))
        elif isinstance(found, type) and isinstance(place, ModuleType):
            _wrap(found)


_wrap(_weft)
_wrap(_weft.ops)
