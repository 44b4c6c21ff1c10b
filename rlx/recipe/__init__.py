"""Read recipe files, check them, resolve their arms.

It knows the schema, the places of values and the errors of a recipe, and nothing of back-ends, hosts and plans.
"""

from rlx.recipe.bundled import BundledRecipe, bundled_recipes, start_recipe
from rlx.recipe.editor_schema import editor_schema
from rlx.recipe.load import RecipeFile, ResolvedRecipe, load_recipe
from rlx.recipe.problems import Problem, RecipeError, SourceLocation
from rlx.recipe.render import annotated_experiment, annotated_yaml
from rlx.recipe.schema import Recipe

__all__ = [
    "BundledRecipe",
    "Problem",
    "Recipe",
    "RecipeError",
    "RecipeFile",
    "ResolvedRecipe",
    "SourceLocation",
    "annotated_experiment",
    "annotated_yaml",
    "bundled_recipes",
    "editor_schema",
    "load_recipe",
    "start_recipe",
]
