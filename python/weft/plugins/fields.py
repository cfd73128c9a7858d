"""The fields of the plugins' chat models."""

from __future__ import annotations

from typing import Any, Optional, Union

import weft
from pydantic import BaseModel, ConfigDict, Field, model_validator
from weft import arguments
from weft.model import ConversationOptions
from weft.options import ResponseOptions, ModelOptions


class RequestFields(BaseModel):
    """`model`: a weft.Model, or the path of one, which is loaded with `model_options`. The other fields are options of each
    request, as weft.Model.chat has them. `options` has the other options. None leaves weft's default."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", protected_namespaces=())
    model: weft.Model
    model_options: dict[str, Any] = Field(default_factory=dict)
    temperature: Optional[float] = None
    top_k: Optional[int] = None
    top_p: Optional[float] = None
    min_p: Optional[float] = None
    seed: Optional[int] = None
    repetition_penalty: Optional[float] = None
    frequency_penalty: Optional[float] = None
    presence_penalty: Optional[float] = None
    max_tokens: Optional[int] = None
    stop: Optional[Union[str, list[str]]] = None
    timeout: Optional[float] = None
    logprobs: Optional[int] = None
    reasoning_effort: Optional[str] = None
    options: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _check(cls, values: Any) -> Any:
        """Loads the model, and refuses unknown fields, which would have no effect."""
        if not isinstance(values, dict):
            return values
        for name in values.keys() - cls.model_fields.keys() - {field.alias for field in cls.model_fields.values()}:
            for place, table in (("options", ResponseOptions), ("model_options", ModelOptions)):
                if name in arguments.known(table):
                    raise ValueError(f"'{name}' is no field; give {place}={{'{name}': ...}}")
            raise ValueError(f"there is no field '{name}'; {arguments.similar(name, cls.model_fields)}")
        model, options = values.get("model"), values.get("model_options") or {}
        if isinstance(model, weft.Model) and options:
            raise ValueError(f"the model is loaded already: {', '.join(options)} cannot be said here")
        if model is not None and not isinstance(model, weft.Model):
            values = {**values, "model": weft.Model(model, **options), "model_options": {}}  # weft.Model.options has them.
        return values

    @model_validator(mode="after")
    def _check_options(self) -> Any:
        conversation = ConversationOptions.__annotations__
        arguments.options({name: value for name, value in self.request_options.items() if name not in conversation}, ResponseOptions)
        return self

    @property
    def request_options(self) -> dict[str, Any]:
        """The given options, by their names in weft.Model.chat."""
        fields = RequestFields.model_fields.keys() - {"model", "model_options", "options"}
        return {name: value for name in sorted(fields) if (value := getattr(self, name)) is not None} | self.options
