"""Wrong arguments, told in one line that names the one which is wrong.

A function of C++ that gets what it cannot take lists its signatures. The functions of this package's C++ are wrapped in
what reads that list, and says which argument fits none of them."""

from __future__ import annotations

import ast
import functools
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _weft

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
    """TypeError unless the value is of this class."""
    if not isinstance(value, kind):
        raise wrong(name, value, expected)


def items(name: str, value: object, expected: str) -> list[Any]:
    """What there is in a list of any kind; a text is none."""
    if isinstance(value, (str, bytes, bytearray, Mapping)):
        raise wrong(name, value, expected)
    try:
        return [*value]  # type: ignore[misc]
    except TypeError:
        raise wrong(name, value, expected) from None


def path(name: str, value: object) -> Path:
    """A file's name."""
    need((str, os.PathLike), name, value, "a path")
    return Path(value).expanduser()  # type: ignore[arg-type]


def array(name: str, value: npt.ArrayLike, dtype: Any = None) -> npt.NDArray[Any]:
    """Its numbers, one behind another as C has them. TypeError where another type would have other numbers, but for
    rounding."""
    try:
        found = np.asarray(value, order="C")
        if dtype is None or found.dtype == dtype:
            return found
        if found.dtype.kind in "cmMSU":
            raise TypeError(f"it has {found.dtype}")
        with np.errstate(all="ignore"):
            made = found.astype(dtype)
        if made.dtype.kind in "iu" and not np.array_equal(made, found):
            raise TypeError("it has other numbers, too")
        if made.dtype.kind == "f" and np.isfinite(found[np.isinf(made)].astype(np.float64)).any():
            raise TypeError("it has numbers that are too large")
        return made
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        of_type = "" if dtype is None else f" of the type {np.dtype(dtype)}"
        raise TypeError(f"{name} is no array of numbers{of_type}: {_one_line(error)}") from None


def bf16(name: str, value: npt.ArrayLike) -> npt.NDArray[np.uint16]:
    """The bits of numbers, rounded to the nearest; what has 16 bits and is no float is bits already."""
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


def _name(kind: ast.expr) -> str:
    return kind.attr if isinstance(kind, ast.Attribute) else kind.id if isinstance(kind, ast.Name) else ""


def _fits(kind: ast.expr, value: object, bits: int) -> bool:
    """Whether a value may be of the kind that a signature names, whole numbers of so many bits at most. Where it names what
    only C++ knows: yes."""
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
        return True
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
    # Of arrays the list says more than Python can read.
    lines = re.findall(r"^ +\d+\. (.*)$", re.sub(r"ndarray\[[^\[\]]*\]", "ndarray", str(error)), re.MULTILINE)
    try:
        signatures = [ast.parse(f"def {line}: ...").body[0].args for line in lines]  # type: ignore[attr-defined]
    except SyntaxError:
        return error
    kinds: dict[str, list[ast.expr]] = {}
    for arguments in signatures:
        for argument in [*arguments.posonlyargs, *arguments.args]:
            if argument.annotation is not None:
                kinds.setdefault(argument.arg, []).append(argument.annotation)
    arguments = max(signatures, key=lambda one: len(one.args))
    names = [argument.arg for argument in [*arguments.posonlyargs, *arguments.args]]
    if len(given) > len(names):
        n_self = names[:1].count("self")
        return TypeError(f"{function}() takes {len(names) - n_self} arguments, not {len(given) - n_self}")
    values = dict(zip(names, given))
    for name, value in named.items():
        if name not in names:
            known = ", ".join(one for one in names if one != "self") or "none"
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

    return call


def _wrap(place: Any) -> None:
    """The functions of a module or class, and those of its classes. Operators tell Python themselves."""
    for name, found in list(vars(place).items()):
        if type(found).__name__ == "nb_method" and not name.startswith("__"):
            setattr(place, name, _clear(found))
        elif type(found).__name__ == "nb_func" and not name.startswith("__"):
            setattr(place, name, _clear(found) if isinstance(place, ModuleType) else staticmethod(_clear(found)))
        elif isinstance(found, type) and isinstance(place, ModuleType):
            _wrap(found)


_wrap(_weft)
_wrap(_weft.ops)
