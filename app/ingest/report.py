"""What became of everything in an ingest."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from app.ingest.plan import IngestPlan
from multifold.files.folder import FileProblem

PROBLEMS_SHOWN = 20


@dataclass
class IngestReport:
    """Ids of items by what became of them; what was left out, with the reason and what to do."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    unchanged: int = 0
    skipped: list[FileProblem] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)  # files that belong to no item
    warnings: list[FileProblem] = field(default_factory=list)  # what was lost of items that are in
    seconds: float = 0.0

    @classmethod
    def of(
        cls,
        plan: IngestPlan,
        skipped: Sequence[FileProblem] = (),
        warnings: Sequence[FileProblem] = (),
        seconds: float = 0.0,
    ) -> "IngestReport":
        """The report of a plan that was carried out but for what was skipped."""
        lost = {problem.name for problem in skipped}
        return cls(
            added=[task.id for task in plan.added if task.id not in lost],
            changed=[task.id for task in plan.changed if task.id not in lost],
            moved=[task.id for task in plan.moved if task.id not in lost],
            deleted=plan.deleted,
            unchanged=plan.unchanged,
            skipped=[*plan.skipped, *skipped],
            passed_over=plan.passed_over,
            warnings=list(warnings),
            seconds=round(seconds, 3),
        )

    def counts(self) -> str:
        lists = (f"{len(getattr(self, name))} {name}" for name in ("added", "changed", "moved", "deleted"))
        return ", ".join([*lists, f"{self.unchanged} unchanged, {len(self.skipped)} skipped"])

    def lines(self) -> list[str]:
        lines = [f"  {problem}" for problem in self.skipped[:PROBLEMS_SHOWN]]
        if (more := len(self.skipped) - PROBLEMS_SHOWN) > 0:
            lines.append(f"  … and {more} more; --report FILE writes all of them")
        lines += [f"  note on {warning}" for warning in self.warnings[:PROBLEMS_SHOWN]]
        if (more := len(self.warnings) - PROBLEMS_SHOWN) > 0:
            lines.append(f"  … and {more} more notes; --report FILE writes all of them")
        if others := len(self.passed_over):
            lines.append(f"  {others} other {'file was' if others == 1 else 'files were'} passed over")
        return lines

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
