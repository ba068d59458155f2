"""JSON merge patches, as RFC 7396 has them. Pure."""

from collections.abc import Mapping
from typing import Any


def merged(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The target with the patch's values in place of its own; null takes a key away, objects go inwards."""
    result = {key: value for key, value in target.items() if key not in patch}
    for key, value in patch.items():
        if isinstance(value, Mapping):
            inner = target.get(key)
            result[key] = merged(inner if isinstance(inner, Mapping) else {}, value)
        elif value is not None:
            result[key] = value
    return result
