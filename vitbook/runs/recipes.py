"""The recipes by name, as ``recipes.toml`` has them."""

import tomllib
from pathlib import Path

from vitbook.errors import UnknownNameError
from vitbook.runs.recipe import Recipe, RecipeFields
from vitbook.typed import typed

_TABLES = tomllib.loads(Path(__file__).with_name("recipes.toml").read_text("utf-8"))
RECIPES = {name: Recipe(name=name, **numbers) for name, numbers in _TABLES.items()}


def get_recipe(name: str, /, **changes) -> Recipe:
    """A recipe by name, with some of its numbers changed.

    Raises:
        UnknownNameError: no such recipe, or no such number in it.
        ValueError: a number of another kind than the recipe's, or one that no run can have.

    Example:
        >>> from vitbook.runs import get_recipe
        >>> recipe = get_recipe("digits", epochs=5, mixup=0.2)
        >>> recipe.epochs, recipe.batch_size, recipe.mixes
        (5, 64, True)
    """
    if name not in RECIPES:
        raise UnknownNameError("recipe", name, RECIPES)
    recipe = vars(RECIPES[name])
    for field, value in changes.items():
        if field == "name" or field not in recipe:
            raise UnknownNameError("recipe field", field, recipe.keys() - {"name"})
        if type(value) in (int, float) and abs(value) >= 2**53:
            raise ValueError(f"recipe field {field} is too large: expected less than 2^53")
    return Recipe(**typed(recipe | changes, RecipeFields))
