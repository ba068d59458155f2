"""OBJ files that count vertices backwards, from where a face stands: trimesh reads such numbers wrongly."""

import re

_BACKWARDS = re.compile(rb"^f\s.*[\s/]-\d", re.MULTILINE)
_KINDS = (b"v", b"vt", b"vn")  # in the order in which a corner names them


def counted_forwards(data: bytes) -> bytes:
    """The file with every index counted from its beginning."""
    if not _BACKWARDS.search(data):
        return data
    seen, lines = dict.fromkeys(_KINDS, 0), []
    for line in data.splitlines():
        kind, _, rest = line.strip().partition(b" ")
        if kind in seen:
            seen[kind] += 1
        elif kind == b"f":
            counts = list(seen.values())
            line = b"f " + b" ".join(_corner(corner, counts) for corner in rest.split())
        lines.append(line)
    return b"\n".join(lines)


def _corner(corner: bytes, counts: list[int]) -> bytes:
    numbers = corner.split(b"/")
    return b"/".join(
        b"%d" % (int(one) + 1 + count) if one.startswith(b"-") else one
        for one, count in zip(numbers, counts, strict=False)
    )
