"""Many replicas of weft, on a Ray cluster.

    from ray import serve
    import weft.ray
    serve.run(weft.ray.app("model.gguf", n_replicas=(1, 8)))          # one endpoint, which speaks OpenAI's API
    weft.ray.map_batches(dataset, "model.gguf", max_tokens=64)        # a column of prompts to one of completions

Needs the package ray: pip install weft[ray]. Each node needs weft and the model's file."""

try:
    import ray.data
    import ray.serve  # noqa: F401
except ImportError as error:
    raise ImportError("weft.ray needs the package ray: pip install weft[ray]") from error

from .batches import map_batches
from .serving import app

__all__ = ["app", "map_batches"]
