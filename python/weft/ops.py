"""The functions that graphs are made of, under the names that NumPy and PyTorch have for them."""

from ._weft.ops import *  # noqa: F403
