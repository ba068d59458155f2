"""The ablation as a section of a report, from the results that its bench left."""

from pathlib import Path

from multifold.errors import MultifoldError
from training.evaluate.page import Part, Section, Table


def sections(log: Path | None) -> list[Section]:
    """A table of each study that has been run; none where no results are named."""
    if log is None:
        return []
    from training.benches import ablation

    found = ablation.results(log)
    if not found:
        raise MultifoldError(f"{log} has no results of `multifold bench ablation`")
    parts: list[Part] = []
    for study in dict.fromkeys(result.study for result in found):
        lines = ablation.table(study, [result for result in found if result.study == study]).splitlines()
        cells = [line.strip("|").split("|") for line in lines if line.startswith("|")]
        rows = [[cell.strip() for cell in row] for row in cells]
        parts += [study.capitalize(), Table(rows[0], rows[2:])]
    return [Section("Ablation", parts)]
