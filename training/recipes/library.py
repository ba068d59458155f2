"""Recipe files: found by name or path, extended by others, changed on the command line, printed in full."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

from training.recipes.schema import Recipe, RecipeError, parse_recipe

SHIPPED = Path(__file__).parent
EXTENDS = "extends"

Raw: TypeAlias = dict[str, Any]


def load_recipe(name: str | Path, changes: Sequence[str] = ()) -> Recipe:
    """The recipe of that name or path, with `section.key=value` changes applied."""
    path = find_recipe(str(name))
    raw = _read(path, ())
    for change in changes:
        raw = merge(raw, _change(change))
    return parse_recipe(raw, str(path) if not changes else f"{path} with {' '.join(changes)}")


def change_recipe(recipe: Recipe, changes: Sequence[str]) -> Recipe:
    """The recipe with `section.key=value` changes applied."""
    raw = recipe.model_dump()
    for change in changes:
        raw = merge(raw, _change(change))
    return parse_recipe(raw, f"{recipe.name} with {' '.join(changes)}")


def find_recipe(name: str, beside: Path | None = None) -> Path:
    """The file of a recipe: a path, one beside the recipe that extends it, or a shipped one by its name."""
    for path in (Path(name), *([beside / name, beside / f"{name}.toml"] if beside else [])):
        if path.is_file():
            return path
    if (SHIPPED / f"{name}.toml").is_file():
        return SHIPPED / f"{name}.toml"
    near = get_close_matches(name, shipped_names(), 3, 0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "`multifold train --list` names ours"
    raise RecipeError(f"there is no recipe {name}; {hint}")


def shipped_names() -> list[str]:
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def list_recipes() -> str:
    width = max(map(len, shipped_names()))
    lines = [f"  {name:{width}}  {load_recipe(name).about}" for name in shipped_names()]
    return "recipes, for `multifold train NAME`:\n\n" + "\n".join(lines)


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> Raw:
    """`over` laid over `base`, section by section.

    A section of another `kind` takes nothing of the base; one of another `name` takes all but its `params`.
    """
    if "kind" in over and over["kind"] != base.get("kind"):
        return dict(over)
    merged = dict(base)
    if "name" in over and over["name"] != base.get("name"):
        merged.pop("params", None)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def to_toml(recipe: Recipe) -> str:
    """The whole recipe, every default included; what is not set at all is left out."""
    return "\n".join(_section(recipe.model_dump(exclude_none=True), ())) + "\n"


def _read(path: Path, above: tuple[Path, ...]) -> Raw:
    """A file's own keys over those of the recipe that it extends."""
    path = path.resolve()
    if path in above:
        chain = " -> ".join(each.stem for each in (*above[above.index(path) :], path))
        raise RecipeError(f"these recipes extend each other in a circle: {chain}")
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path} is not TOML: {error}") from error
    if EXTENDS not in raw:
        return raw
    named = raw.pop(EXTENDS)
    if not isinstance(named, str):
        raise RecipeError(f"{path}: extends must be the name or the path of one recipe")
    return merge(_read(find_recipe(named, path.parent), (*above, path)), raw)


def _change(change: str) -> Raw:
    """`train.rate=1e-4` as a nested table; a value that is not TOML is a text."""
    key, separator, value = change.partition("=")
    if not separator or not all(parts := key.strip().split(".")):
        raise RecipeError(f"--set takes section.key=value, and {change!r} is not that")
    nested: Any = value.strip()
    with suppress(tomllib.TOMLDecodeError):
        nested = tomllib.loads(f"value = {nested}")["value"]
    for part in reversed(parts):
        nested = {part: nested}
    changed: Raw = nested
    return changed


def _section(values: Mapping[str, Any], name: tuple[str, ...]) -> list[str]:
    """Plain values first, then the sections inside."""
    lines = [f"\n[{'.'.join(name)}]"] if name else []
    lines += [f"{key} = {_literal(value)}" for key, value in values.items() if not isinstance(value, dict)]
    for key, value in values.items():
        if isinstance(value, dict) and value:
            lines += _section(value, (*name, key))
    return lines


def _literal(value: object) -> str:
    """Texts, booleans, whole numbers and lists of them are written in TOML as in JSON."""
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
