"""The kinds of furniture: one function a kind builds one piece on the workbench."""

from collections.abc import Callable, Mapping

from training.data.furniture.kinds import accessories, beds, cases, seats, tables
from training.data.furniture.modeling.piece import Workbench

BUILDERS: Mapping[str, Callable[[Workbench], None]] = {
    "armchair": seats.build_armchair,
    "bed": beds.build_bed,
    "bench": seats.build_bench,
    "cabinet": cases.build_cabinet,
    "chair": seats.build_chair,
    "clock": accessories.build_clock,
    "desk": tables.build_desk,
    "lamp": accessories.build_lamp,
    "mirror": accessories.build_mirror,
    "nightstand": cases.build_nightstand,
    "shelf": cases.build_shelf,
    "sofa": seats.build_sofa,
    "stool": seats.build_stool,
    "table": tables.build_table,
    "vase": accessories.build_vase,
    "wardrobe": cases.build_wardrobe,
}
KINDS = tuple(BUILDERS)  # in the order of the alphabet: seeds choose by place
