"""Measures on a small tree, worked out by hand; and what is no tree."""

import json
from pathlib import Path

import pytest

from multifold.analysis.hierarchy import ClassTree, ClassTreeError, HierarchyMeasures, measure, read_tree

TREE = {"chair": "seat", "stool": "seat", "seat": "thing", "vase": "pot", "pot": "thing"}


@pytest.fixture
def tree(tmp_path: Path) -> ClassTree:
    (tmp_path / "tree.json").write_text(json.dumps(TREE), encoding="utf-8")
    return read_tree(tmp_path / "tree.json")


@pytest.mark.parametrize(
    ("predicted", "expected"),
    [
        ("chair", (1, 0, 1, 1, 1, 1)),
        ("stool", (0, 2, 1, 1, 1, 1)),
        ("vase", (0, 4, 2, 1 / 3, 1 / 2, 1 / 2)),
        ("seat", (0, 1, 1, 1 / 2, 1, 1 / 2)),
    ],
)
def test_how_wrong_a_class_is(tree: ClassTree, predicted: str, expected: tuple[float, ...]) -> None:
    assert measure(tree, [predicted], ["chair"]) == HierarchyMeasures(*map(float, expected))


def test_the_measures_are_means(tree: ClassTree) -> None:
    both = measure(tree, ["chair", "vase"], ["chair", "chair"])
    assert (both.accuracy, both.tie, both.lca) == (0.5, 2.0, 1.5)


def test_a_class_may_be_of_two_kinds() -> None:
    tree = ClassTree({"sofa bed": ("sofa", "bed"), "sofa": ("thing",), "bed": ("thing",)})
    assert tree.ancestors("sofa bed") == {"sofa", "bed", "thing"}
    assert tree.steps("sofa", "bed") == 2


@pytest.mark.parametrize(
    ("content", "says"),
    [("{", "no JSON"), ("[1]", "no tree"), ('{"a": 3}', "no tree"), ('{"a": "b", "b": "a"}', "no circles")],
)
def test_what_is_no_tree_is_refused(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "tree.json").write_text(content, encoding="utf-8")
    with pytest.raises(ClassTreeError, match=says):
        read_tree(tmp_path / "tree.json")


def test_what_cannot_be_measured_is_refused(tree: ClassTree, tmp_path: Path) -> None:
    with pytest.raises(ClassTreeError, match="no way leads"):
        measure(tree, ["chair"], ["planet"])
    with pytest.raises(ClassTreeError, match="cannot be measured"):
        measure(tree, [], [])
    with pytest.raises(ClassTreeError, match="cannot be read"):
        read_tree(tmp_path / "nowhere.json")
