"""Build the JSON schema (2020-12) of a recipe file for editors: the keys, their values and units.

A file that extends another is a part of a recipe, as an arm is, so only the top level says what is required;
`rlx validate` checks the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlx import renamed_keys
from rlx.recipe.fields import NAME_PATTERN
from rlx.recipe.schema import Experiment, Recipe
from rlx.renamed_keys import RenamedKey

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def editor_schema() -> dict[str, Any]:
    """Return the schema of a recipe file with `extends`, `control`, `arms` and `experiment`."""
    generated = Recipe.model_json_schema(mode="validation")
    question = Experiment.model_json_schema(mode="validation")
    sections = {**generated.pop("$defs"), **question.pop("$defs"), "Experiment": question}
    definitions: dict[str, Any] = {name: _partial(section) for name, section in sections.items()}
    required = generated["required"]
    top = _partial(generated)
    arm = {key: value for key, value in top["properties"].items() if key not in ("name", "version")}
    definitions["Arm"] = {**top, "title": "Arm", "description": "A partial recipe: the treatment.", "properties": arm}
    top["properties"] = {**top["properties"], **_file_properties()}
    for row in renamed_keys.RENAMED:
        _add_old_name(row, top, definitions)
    whole = {"anyOf": [{"required": ["extends"]}, {"required": required}]}
    return {"$schema": _DIALECT, **top, "title": "rlx recipe", **whole, "$defs": definitions}


def _add_old_name(row: RenamedKey, top: dict[str, Any], definitions: dict[str, Any]) -> None:
    """Allow the old name where it was, marked as deprecated."""
    *above, key = row.new.split(".")
    renamed = _properties(above, top, definitions)[key]
    *above, key = row.old.split(".")
    old = {**renamed, "deprecated": True, "description": f"Called {row.new} since rlx {row.since}"}
    for root in (top, definitions["Arm"]):
        if root is top or row.new.partition(".")[0] in root["properties"]:
            _properties(above, root, definitions)[key] = old


def _properties(path: Sequence[str], root: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of a section; a section that no longer exists is added with no other keys."""
    properties: dict[str, Any] = root["properties"]
    for key in path:
        section = properties.setdefault(key, {"type": ["object", "null"], "properties": {}})
        forms = [section, *section.get("anyOf", ())]
        named = next((form["$ref"].rpartition("/")[2] for form in forms if "$ref" in form), None)
        properties = definitions[named]["properties"] if named else section["properties"]
    return properties


def _file_properties() -> dict[str, Any]:
    return {
        "extends": {"type": ["string", "null"], "description": "Recipe file that this one builds on, relative to it"},
        "control": {"type": ["string", "null"], "description": "The arm that the others are compared with"},
        "arms": {
            "type": ["object", "null"],
            "description": "Arm name -> partial recipe; what it changes is the treatment",
            "propertyNames": {"pattern": f"^{NAME_PATTERN}$"},
            "additionalProperties": {"anyOf": [{"$ref": "#/$defs/Arm"}, {"type": "null"}]},
        },
        "experiment": {
            "anyOf": [{"$ref": "#/$defs/Experiment"}, {"type": "null"}],
            "description": "The question that the arms are to answer, registered before their first step",
        },
    }


def _partial(section: dict[str, Any]) -> dict[str, Any]:
    """Return the section with nothing required, and null, which removes an inherited value, allowed for every key."""
    properties = {key: _or_null(value) for key, value in section.get("properties", {}).items()}
    rest = {key: value for key, value in section.items() if key not in ("required", "properties")}
    return {**rest, "properties": properties} if properties else rest


def _or_null(value: dict[str, Any]) -> dict[str, Any]:
    typed = value.keys() & {"type", "$ref", "anyOf", "oneOf", "const", "enum"}
    if not typed or {"type": "null"} in value.get("anyOf", []):
        return value
    about = {key: item for key, item in value.items() if key in ("description", "default", "title")}
    kind = {key: item for key, item in value.items() if key not in about}
    return {"anyOf": [kind, {"type": "null"}], **about}
