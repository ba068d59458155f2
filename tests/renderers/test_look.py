"""What engines share."""

import re
from pathlib import Path

from renderers import gl
from renderers.look import shader_defines

SHADER = Path(gl.__file__).parent / "shaders" / "mesh.frag"


def test_constants_of_the_light_are_whole_words_of_the_shader() -> None:
    """pyrender replaces the text of a name wherever it stands."""
    words = set(re.findall(r"\w+", SHADER.read_text()))
    assert set(shader_defines()) <= words
    assert not [(name, word) for name in shader_defines() for word in words if name in word and name != word]
