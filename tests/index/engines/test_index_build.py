"""Indexes are built in little memory: they are those that FAISS makes, and their lists have no spare room."""

import numpy as np
import pytest

from benches.index.generated_vectors import sphere_vectors
from index.contracts import NO_ROW
from index.engines import index_build
from index.engines.exact_engine import view_of
from index.engines.faiss_index import BuildStopped, FaissIndex, IndexStart, empty_index
from index.engines.faiss_library import Index, faiss, reduction_for
from index.engines.index_build import build_index, extend_index

DIM, COUNT = 32, 5000
SCENE = sphere_vectors(COUNT, DIM, 32)
VIEW = view_of(np.arange(COUNT), SCENE.rows)
REDUCTION = reduction_for("ip", DIM, VIEW.lengths)
PLAIN = ("IVF32,SQ4", "IVF32,SQ8", "IVF32,Flat", "IVF32_HNSW8,SQ8", "IVF32,PQ8x4", "IVF32,RaBitQ4")
OTHERS = ("IVF32,PQ8x4fs", "IVF32,RaBitQfs", "PCA16,IVF32,PQ8x4", "SQ8")
SLOW = pytest.param("OPQ8,IVF32,PQ8x4", marks=pytest.mark.slow)


def never() -> bool:
    return False


def built(name: str) -> FaissIndex:
    return build_index(name, VIEW, REDUCTION, on_gpu=False, stopped=never)


def taught(name: str) -> Index:
    """The index as FAISS alone makes it."""
    index = empty_index(name, REDUCTION.width)
    index.train(REDUCTION.gallery(SCENE.rows))
    index.add(REDUCTION.gallery(SCENE.rows))
    return index


@pytest.mark.parametrize("name", [*PLAIN, *OTHERS, SLOW])
def test_it_is_the_index_that_faiss_makes(name: str) -> None:
    ours, theirs = built(name).index, taught(name)
    assert ours.ntotal == COUNT
    assert bytes(faiss.serialize_index(ours)) == bytes(faiss.serialize_index(theirs))


def places_of(lists: Index) -> list[int]:
    """Where the codes of each list are in memory."""
    return [int(lists.get_codes(cell)) for cell in range(32)]


@pytest.mark.parametrize("name", PLAIN)
def test_no_list_grows_while_it_is_filled(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_build, "PIECE", 100)
    places: list[list[int]] = []
    make_room = index_build._make_room

    def noted(lists: Index, *sizes: object) -> None:
        make_room(lists, *sizes)  # type: ignore[arg-type]
        places.append(places_of(lists))

    monkeypatch.setattr(index_build, "_make_room", noted)
    first = built(name)
    assert places_of(first.index.invlists) == places[-1]
    if first.cells is None:
        return
    half = view_of(np.arange(COUNT // 2), SCENE.rows[: COUNT // 2])
    begun = extend_index(IndexStart(first, 0), half, never)
    assert begun is not None
    whole = extend_index(IndexStart(begun, COUNT // 2), VIEW, never)
    assert whole is not None
    assert places_of(whole.index.invlists) == places[-1]
    assert bytes(faiss.serialize_index(whole.index)) == bytes(faiss.serialize_index(first.index))


def test_a_build_stops_between_two_pieces() -> None:
    calls = iter([False, False, True])
    with pytest.raises(BuildStopped):
        build_index("IVF32,SQ4", VIEW, REDUCTION, on_gpu=False, stopped=lambda: next(calls))


@pytest.mark.parametrize("name", ["IVF32,SQ4", "IVF32,SQ8", "IVF32,Flat"])
def test_selected_rows_alone_are_candidates(name: str) -> None:
    ann = built(name)
    allowed = np.sort(np.random.default_rng(2).permutation(COUNT)[:300])
    chosen = np.zeros(COUNT, np.bool_)
    chosen[allowed] = True
    ours = ann.candidates(SCENE.queries, 20, 32, np.packbits(chosen, bitorder="little"))
    every = ann.candidates(SCENE.queries, COUNT, 32)
    for found, ranked in zip(ours, every, strict=True):
        assert found.tolist() == ranked[chosen[ranked]][:20].tolist()
    few = ann.candidates(SCENE.queries, 400, 32, np.packbits(chosen, bitorder="little"))
    assert ((few != NO_ROW).sum(axis=1) == 300).all()
