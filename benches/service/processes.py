"""What running processes use, as Linux tells it."""

import os
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

PROGRAM = (sys.executable, "-m", "multifold")
PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")
PARENT, TIMES = 1, slice(11, 15)  # fields behind the name: our own time and that of children who ended


def process_tree(process: int) -> list[int]:
    """A process and all its running descendants."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children[int(fields[PARENT])].append(int(entry.name))
    found = [process]
    for one in found:
        found += children[one]
    return found


def processor_time(processes: Iterable[int]) -> float:
    """Seconds of all processors, children who have ended included."""
    return sum(sum(map(int, fields[TIMES])) for one in processes if (fields := _stat(one))) / TICK


def resident_bytes(process: int) -> int:
    """Bytes of memory; none once it has ended."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _stat(process: int) -> list[str]:
    """The fields after the name, which may hold blanks; nothing once the process has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
