"""weft: runs language models from GGUF files, and graphs of your own.

```python
import weft
model = weft.Model("model.gguf")
for piece in model.stream("Once upon a time", max_tokens=64):
    print(piece, end="", flush=True)
```
"""

import warnings as _warnings
from importlib.metadata import version as _version

from . import arguments as _arguments  # Before all that uses what it wraps.
from . import ops
from ._weft import Batch, Constraint, Context, Dim, Grammar, Graph, Sampler, Value, devices
from .chats import ChatEvent, ChatPrompt, ChatResponse, ChatStream, ToolCall
from .embedder import Embedder, Ranked
from .errors import (
    CacheFullError,
    CancelledError,
    DeviceError,
    Error,
    InvalidArgumentError,
    InvalidFileError,
    IoError,
    NotFoundError,
    OutOfMemoryError,
    OverloadedError,
    UnavailableError,
    UnsupportedError,
)
from .model import Model, convert
from .plan import Plan
from .streams import Completion, Stream, TokenLogprob

__version__ = _version("weft")

__all__ = [
    "Batch", "CacheFullError", "CancelledError", "ChatEvent", "ChatPrompt", "ChatResponse", "ChatStream", "Completion",
    "Constraint", "Context", "DeviceError", "Dim", "Embedder", "Error", "Grammar", "Graph", "InvalidArgumentError",
    "InvalidFileError", "IoError", "Model", "NotFoundError", "OutOfMemoryError", "OverloadedError", "Plan", "Ranked",
    "Sampler", "Stream", "TokenLogprob", "ToolCall",
    "UnavailableError", "UnsupportedError", "Value", "convert", "devices", "ops",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name == "ChatAnswer":
        _warnings.warn("weft.ChatAnswer is deprecated: use weft.ChatResponse", DeprecationWarning, stacklevel=2)
        return ChatResponse
    raise AttributeError(f"module 'weft' has no attribute {name!r}")
