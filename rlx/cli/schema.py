"""rlx schema: print the JSON schema of recipes, for editors."""

from __future__ import annotations


def schema() -> None:
    """Print the JSON schema of recipes, for editors.

    Put `# yaml-language-server: $schema=FILE` on top of a recipe.
    """
    import json

    from rlx.recipe import editor_schema

    # Editors read the schema itself, so it is not wrapped in an answer of rlx.
    print(json.dumps(editor_schema(), indent=2, ensure_ascii=False))
