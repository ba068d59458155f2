"""Options of benchmarks name what there is."""

from benches import gpu, index, service, training
from benches.gpu.gpu import PARTS as GPU_PARTS
from benches.index.race import SCENES
from benches.index.racers import RACERS
from benches.training.training import PARTS as TRAINING_PARTS
from index.legs.table import TARGET_LEGS


def test_an_option_has_all_names_to_choose_from() -> None:
    assert tuple(RACERS) == index.RACERS
    assert tuple(SCENES) == index.SCENES
    assert tuple(GPU_PARTS) == gpu.PARTS
    assert tuple(TRAINING_PARTS) == training.PARTS
    assert tuple(TARGET_LEGS) == service.TARGETS
