"""Indexes are built piece by piece: they are those that FAISS makes of all rows at once."""

import numpy as np
import pytest

from benches.index.generated_vectors import sphere_vectors
from index.contracts import NO_ROW
from index.engines import index_build
from index.engines.exact_engine import view_of
from index.engines.faiss_index import BuildStopped, FaissIndex, IndexStart, empty_index
from index.engines.faiss_library import Index, faiss, reduction_for
from index.engines.index_build import ROUNDS, build_index, extend_index

DIM, COUNT = 32, 4000
SCENE = sphere_vectors(COUNT, DIM, 32)
VIEW = view_of(np.arange(COUNT), SCENE.rows)
REDUCTION = reduction_for("ip", DIM, VIEW.lengths)
SHARED = ("IVF32,SQ4", "IVF32,SQ8", "IVF32,Flat", "IVF32_HNSW8,SQ8")  # whose cells others may share
OTHERS = ("IVF32,PQ8x4", "IVF32,RaBitQ4", "IVF32,PQ8x4fs", "IVF32,RaBitQfs", "PCA16,IVF32,PQ8x4", "SQ8")
SLOW = pytest.param("OPQ8,IVF32,PQ8x4", marks=pytest.mark.slow)


def built(name: str) -> FaissIndex:
    return build_index(name, VIEW, REDUCTION, on_gpu=False, stopped=lambda: False)


def written(index: Index) -> bytes:
    return bytes(faiss.serialize_index(index))


@pytest.mark.parametrize("name", [*SHARED, *OTHERS, SLOW])
def test_it_is_the_index_that_faiss_makes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = built(name)
    index = empty_index(name, REDUCTION.width)
    if (cells := faiss.try_extract_index_ivf(index)) is not None:
        cells.cp.niter = ROUNDS
    index.train(REDUCTION.gallery(SCENE.rows))
    index.add(REDUCTION.gallery(SCENE.rows))
    assert ours.index.ntotal == COUNT
    assert written(ours.index) == written(index)
    assert (ours.cells is not None) == (name in SHARED)
    if ours.cells is None:
        return
    monkeypatch.setattr(index_build, "ROWS_A_STEP", 300)
    half = view_of(np.arange(COUNT // 2), SCENE.rows[: COUNT // 2])
    begun = extend_index(IndexStart(ours), half, lambda: False)
    assert begun is not None
    whole = extend_index(IndexStart(begun, np.arange(COUNT // 2)), VIEW, lambda: False)
    assert whole is not None
    assert written(whole.index) == written(ours.index)
    assert (begun.added, whole.added) == (COUNT // 2, COUNT)
    odd = np.arange(COUNT) % 2 == 1
    places = np.where(odd, np.cumsum(odd) - 1, NO_ROW)
    left = extend_index(IndexStart(ours, places), view_of(VIEW.ids[odd], SCENE.rows[odd]), lambda: False)
    assert left is not None
    every, some = (one.candidates(SCENE.queries, COUNT, 32) for one in (ours, left))
    for all_rows, odd_ones in zip(every, some, strict=True):
        assert odd_ones[odd_ones >= 0].tolist() == places[all_rows[odd[all_rows]]].tolist()
    assert (left.index.ntotal, left.added) == (odd.sum(), 0)


def test_a_build_stops_between_two_pieces() -> None:
    calls = iter([False, False, True])
    with pytest.raises(BuildStopped):
        build_index("IVF32,SQ4", VIEW, REDUCTION, on_gpu=False, stopped=lambda: next(calls))


@pytest.mark.parametrize("name", SHARED[:3])
def test_selected_rows_alone_are_candidates(name: str) -> None:
    ann = built(name)
    allowed = np.sort(np.random.default_rng(2).permutation(COUNT)[:300])
    chosen = np.zeros(COUNT, np.bool_)
    chosen[allowed] = True
    selected = np.packbits(chosen, bitorder="little")
    every = ann.candidates(SCENE.queries, COUNT, 32)
    for ours, ranked in zip(ann.candidates(SCENE.queries, 20, 32, selected), every, strict=True):
        assert ours.tolist() == ranked[chosen[ranked]][:20].tolist()
    few = ann.candidates(SCENE.queries, 400, 32, selected)
    assert ((few != NO_ROW).sum(axis=1) == 300).all()
