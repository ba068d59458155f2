"""What became of everything: for people, and as JSON."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from app.intake.plan import Plan
from multifold.folder import Problem

SHOWN = 20


@dataclass
class Report:
    """Ids of items by what became of them; what was left out, with the reason and what to do."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    unchanged: int = 0
    skipped: list[Problem] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)  # files that are neither seen nor read
    seconds: float = 0.0

    def counts(self) -> str:
        """In one line."""
        lists = ("added", "changed", "moved", "deleted")
        told = [f"{len(getattr(self, name))} {name}" for name in lists]
        return ", ".join([*told, f"{self.unchanged} unchanged, {len(self.skipped)} skipped"])

    def lines(self) -> list[str]:
        """What was left out, the first of it."""
        told = [f"  {problem}" for problem in self.skipped[:SHOWN]]
        if len(self.skipped) > SHOWN:
            told.append(f"  … and {len(self.skipped) - SHOWN} more; --report FILE writes all of them")
        if self.passed_over:
            told.append(f"  {len(self.passed_over)} other files were passed over")
        return told

    def write(self, path: Path) -> None:
        """All of it as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def report_of(plan: Plan, skipped: list[Problem], seconds: float = 0.0) -> Report:
    """What a plan came to, but for what was skipped on the way."""
    lost = {problem.name for problem in skipped}
    added, changed, moved = (
        [work.id for work in works if work.id not in lost] for works in (plan.added, plan.changed, plan.moved)
    )
    problems = [*plan.skipped, *skipped]
    return Report(
        added, changed, moved, plan.deleted, plan.unchanged, problems, plan.passed_over, round(seconds, 3)
    )
