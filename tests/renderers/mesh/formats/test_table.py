"""A suffix belongs to one format, and what a file says of itself leads to a suffix."""

import pytest

from renderers.mesh.formats.table import EXTENSIONS, FORMAT_OF, FORMATS, MEDIA_TYPES, PACKAGES, SIGNATURES


def test_each_suffix_is_of_one_format_and_a_readable_ending() -> None:
    assert sorted(EXTENSIONS) == sorted(suffix for one in FORMATS for suffix in one.suffixes)
    assert all(suffix.startswith(".") and suffix == suffix.lower() for suffix in EXTENSIONS)
    assert len({one.name for one in FORMATS}) == len(FORMATS)
    assert {*PACKAGES} == {".3mf", ".usdz"}


@pytest.mark.parametrize("told", [*MEDIA_TYPES, *SIGNATURES])
def test_what_a_file_says_of_itself_leads_to_its_own_format(told: str | bytes) -> None:
    suffix = MEDIA_TYPES[told] if isinstance(told, str) else SIGNATURES[told]
    own = FORMAT_OF[suffix]
    assert told in (own.media_types if isinstance(told, str) else own.signatures)
