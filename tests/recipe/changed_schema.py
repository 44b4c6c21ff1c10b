"""Recipe schemas as a later version could have them: with one more key, another default, or a renamed key."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from pydantic import BaseModel, create_model

from rlx import renamed_keys
from rlx.recipe.schema import Recipe, Section
from rlx.renamed_keys import RenamedKey

Model = type[BaseModel]


def with_field(section: str, name: str, kind: Any, default: Any) -> Model:
    """The schema of recipes with one more key, or another default of a key, in a section."""
    below = _section(section)
    return _with_section(section, create_model(below.__name__, __base__=below, **{name: (kind, default)}))


def with_renamed(section: str, old: str, new: str) -> Model:
    """The schema of recipes in which a key of a section has another name."""
    below = _section(section)
    fields: dict[str, Any] = {
        new if name == old else name: (field.annotation, field) for name, field in below.model_fields.items()
    }
    return _with_section(section, create_model(below.__name__, __base__=Section, **fields))


def use(monkeypatch: pytest.MonkeyPatch, schema: Model, *renamed: RenamedKey) -> None:
    """Let rlx read recipes by this schema, and with these rows in its table of renamed keys."""
    for module in ("load", "editor_schema"):
        monkeypatch.setattr(import_module(f"rlx.recipe.{module}"), "Recipe", schema)
    monkeypatch.setattr(renamed_keys, "RENAMED", renamed)


def _section(path: str) -> Model:
    model: Model = Recipe
    for key in path.split("."):
        model = _model_in(model.model_fields[key].annotation)
    return model


def _model_in(annotation: Any) -> Model:
    from rlx.recipe.schema_errors import _models

    return next(_models(annotation))


def _with_section(path: str, model: Model) -> Model:
    above, _, key = path.rpartition(".")
    holder = _section(above) if above else Recipe
    field = holder.model_fields[key]
    optional = field.default is None
    default: Any = None if optional else ... if field.is_required() else model()
    own = create_model(holder.__name__, __base__=holder, **{key: (model | None if optional else model, default)})  # type: ignore[call-overload]
    return _with_section(above, own) if above else own
