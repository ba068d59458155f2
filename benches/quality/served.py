"""A collection as it is used: files come in by `multifold ingest`, and searches by HTTP."""

import contextlib
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import quote

from starlette.testclient import TestClient

from app.collections import evidence
from app.main import create_app
from app.runtime.collections import Collections, open_collections
from app.settings import Settings
from benches.quality.worlds import AskedQuestion
from multifold.cli import main
from multifold.errors import MultifoldError

DEPTH = 10
LONGEST = 100  # hits of an answer with a promise; it has fewer
TOGETHER = 16  # questions of one request
LARGEST = 1 << 28  # bytes of one
NEVER = 1 << 40  # items from which a collection is fitted by itself


@dataclass(frozen=True)
class QuestionOutcome:
    """What came of one question."""

    asked: str
    rank: int  # of the first right hit; 0 where there is none
    confidence: float  # of the first hit; 0 where there is none
    meant: bool  # whether the first hit is what the question means
    well: bool


@dataclass(frozen=True)
class ServedCollection:
    """A collection that answers."""

    shelf: Collections
    client: TestClient

    def fit(self) -> None:
        """Fit how evidence is weighted, as the service does by itself when a collection has grown."""
        self.shelf.main.evidence.fit()

    def rewrite(self, captions: Mapping[str, Sequence[str]]) -> None:
        """Give items other captions."""
        for name, texts in captions.items():
            answer = self.client.patch(f"/v1/items/{quote(name, safe='')}", json={"texts": list(texts)})
            answer.raise_for_status()

    def ask(self, questions: Sequence[AskedQuestion], **options: object) -> list[QuestionOutcome]:
        """What each of these questions finds."""
        return [_outcome(question, answer) for question, answer in self._answers(questions, **options)]

    def promise(self, questions: Sequence[AskedQuestion], error: float) -> list[tuple[bool, int, float]]:
        """Whether each answer has what is right, how long it is, and the error that it promises."""
        told = []
        for question, answer in self._answers(questions, limit=LONGEST, error=error):
            found = {hit["id"] for hit in answer["hits"]}
            told.append((bool(found & question.right), len(found), float(answer["error"])))
        return told

    def _answers(
        self, questions: Sequence[AskedQuestion], **options: object
    ) -> Iterator[tuple[AskedQuestion, dict[str, Any]]]:
        for start in range(0, len(questions), TOGETHER):
            some = questions[start : start + TOGETHER]
            searches = [{"limit": DEPTH, **one.body, **options} for one in some]
            answer = self.client.post("/v1/search/batch", json={"searches": searches})
            if answer.is_error:
                raise MultifoldError(f"{some[0].asked}: {answer.text}")
            for question, told in zip(some, answer.json()["answers"], strict=True):
                if told["error"] is not None:
                    raise MultifoldError(f"{question.asked}: {told['error']['message']}")
                yield question, told["answer"]


def _outcome(question: AskedQuestion, answer: dict[str, Any]) -> QuestionOutcome:
    hits = answer["hits"]
    rank = next((place for place, hit in enumerate(hits, 1) if hit["id"] in question.right), 0)
    sure = hits[0].get("confidence") or 0.0 if hits else 0.0
    meant = rank == 1 and question.meant in (None, hits[0]["id"])
    return QuestionOutcome(question.asked, rank, sure, meant, bool(answer.get("matches_well")))


@contextlib.contextmanager
def serve(data: Path, bundle: Path) -> Iterator[ServedCollection]:
    """A service that fits only when it is told to, and keeps the vectors of all questions."""
    settings = Settings(data=data, bundle=bundle, threads=1, cache=1 << 14, max_body=LARGEST)
    with (
        mock.patch.object(evidence, "FIRST_FIT_ITEMS", NEVER),
        open_collections(settings) as shelf,
        TestClient(create_app(settings, shelf), base_url=settings.url) as client,
    ):
        if (writing := shelf.main.collection.writing) is not None:
            writing.settle()
        yield ServedCollection(shelf, client)


def run_command(*words: object) -> None:
    """Run `multifold` with these words; what it prints is told only if it fails."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = main([str(word) for word in words])
    if status:
        raise MultifoldError(f"{words} failed: {said.getvalue()}")
