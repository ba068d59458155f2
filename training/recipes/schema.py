"""The schema of a recipe: every section and key that decides a training, checked as it is read."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    FiniteFloat,
    Tag,
    ValidationError,
    model_validator,
)

from multifold.errors import MultifoldError

Count: TypeAlias = Annotated[int, Field(ge=1)]
Number: TypeAlias = Annotated[int, Field(ge=0)]
Seed: TypeAlias = Annotated[int, Field(ge=0, lt=2**63)]
Positive: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Weight: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share: TypeAlias = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]


class RecipeSection(BaseModel):
    """A part of a recipe; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TowerSection(RecipeSection):
    tokens: Literal["class", "all"] | Count = "class"  # what features are read from; a number: class tokens
    final_norm: bool = True
    scale: Literal["auto", "none", "learned", "clamped"] = "auto"  # auto: learned in hyperbolic geometries
    trainable: Literal["all", "head", "none"] | Count = "all"  # a number: so many last blocks, and the head
    checkpointing: bool = False  # less memory for more time

    @model_validator(mode="after")
    def _check_heads(self) -> "TowerSection":
        width, heads = getattr(self, "width", 0), getattr(self, "heads", 1)
        if width % heads:
            raise ValueError(f"{heads} heads cannot share a width of {width} equally")
        return self


class BundleSection(RecipeSection):
    """A tower of a bundle, which does not learn; images and texts name the same bundle."""

    trainable: ClassVar[Literal["none"]] = "none"

    kind: Literal["bundle"] = "bundle"
    bundle: str


class SmallImageSection(TowerSection):
    """A convolutional stem and a transformer over its grid."""

    kind: Literal["small"] = "small"
    size: Count = 96
    stem: tuple[Count, ...] = Field(default=(32, 64, 128), min_length=1)
    width: Count = 192
    depth: Count = 4
    heads: Count = 4

    @model_validator(mode="after")
    def _check_size(self) -> "SmallImageSection":
        if self.size % (patch := 2 ** (len(self.stem) + 1)):
            raise ValueError(f"with this stem the size is a multiple of {patch}, not {self.size}")
        return self


class SmallTextSection(TowerSection):
    """A causal transformer over a small learned vocabulary, read out at the end of the text."""

    kind: Literal["small"] = "small"
    # A text reader in a folder, or "packaged": its vocabulary, and its vectors, which stay as they are.
    words: str | None = None
    pads: Literal["masked", "own", "kept"] = "masked"  # what pads are among all tokens
    vocabulary: Annotated[int, Field(ge=259)] = 1000  # every byte, and what frames a text
    context: Annotated[int, Field(ge=3)] = 64  # start, end, and something between
    width: Count = 192
    depth: Number = 3  # 0: a bag of words, whose order tells nothing
    heads: Count = 4


class BertTextSection(TowerSection):
    """A bidirectional transformer, read out at class tokens in front of the text."""

    kind: Literal["bert"] = "bert"
    tokenizer: str | None = None  # a tokenizer.json; without one, a vocabulary is learned
    vocabulary: Count = 30522
    context: Count = 77
    width: Count = 512
    depth: Count = 12
    heads: Count = 8


class OpenClipImageSection(TowerSection):
    kind: Literal["openclip"] = "openclip"
    still: bool = False  # BatchNorm keeps its statistics, and uses them in training as well
    model: str
    pretrained: str | None = None  # one of open_clip's tags, or a file; none: random weights
    size: Count = 224


class OpenClipTextSection(TowerSection):
    kind: Literal["openclip"] = "openclip"
    pads: Literal["masked", "own", "kept"] = "masked"
    model: str
    pretrained: str | None = None
    tokenizer: str | None = None  # a tokenizer.json, for models that do not read as CLIP does
    context: Count = 77


class SmallPointsSection(TowerSection):
    """Groups of neighbouring points, each read by a small network, then mixed by a transformer."""

    kind: Literal["small"] = "small"
    points: Annotated[int, Field(ge=16, le=100_000)] = 1024  # of a surface
    groups: Count = 32
    neighbours: Count = 16  # points of a group
    radius: Positive = 0.3  # of a group; a shape has radius one
    normals: bool = True
    colors: bool = True
    stem: tuple[Count, ...] = (32, 64)
    width: Count = 96
    depth: Number = 2  # 0: groups are pooled as they are, without a transformer
    heads: Count = 4


class PointBertSection(TowerSection):
    """PointBERT as OpenShape publishes it, in the space of a CLIP."""

    kind: Literal["pointbert"] = "pointbert"
    clip: Literal["vit-b-32", "vit-l-14"] = "vit-b-32"
    pretrained: str | None = None  # OpenShape's model.pt, or the same as .safetensors; none: random weights


TOWER_SECTIONS: Mapping[str, Mapping[str, type[RecipeSection]]] = {
    "image": {"small": SmallImageSection, "openclip": OpenClipImageSection, "bundle": BundleSection},
    "text": {
        "small": SmallTextSection,
        "bert": BertTextSection,
        "openclip": OpenClipTextSection,
        "bundle": BundleSection,
    },
    "points": {"small": SmallPointsSection, "pointbert": PointBertSection},
}


def kind(section: Any) -> str:  # noqa: ANN401 (a section, or what should become one)
    """The tower that a section is about; the small one by default."""
    named = section.get("kind", "small") if isinstance(section, dict) else getattr(section, "kind", "small")
    return str(named)


ImageSection: TypeAlias = Annotated[
    Annotated[SmallImageSection, Tag("small")]
    | Annotated[OpenClipImageSection, Tag("openclip")]
    | Annotated[BundleSection, Tag("bundle")],
    Discriminator(kind),
]
TextSection: TypeAlias = Annotated[
    Annotated[SmallTextSection, Tag("small")]
    | Annotated[BertTextSection, Tag("bert")]
    | Annotated[OpenClipTextSection, Tag("openclip")]
    | Annotated[BundleSection, Tag("bundle")],
    Discriminator(kind),
]
PointsSection: TypeAlias = Annotated[
    Annotated[SmallPointsSection, Tag("small")] | Annotated[PointBertSection, Tag("pointbert")],
    Discriminator(kind),
]


FORMER_KEYS: Mapping[str, Mapping[str, object]] = {  # by section: what each was where it did nothing
    "together": {"blocks": 0, "last": 0},
    "data": {"furniture_unsaid": []},
    "loss": {"memory": 0, "normalised": False},
    "teacher": {"buffers": "copy", "mode": "eval"},
}


class RecipeError(MultifoldError):
    """A recipe that cannot be followed."""


class DataSection(RecipeSection):
    """Where the items come from: a manifest, or the furniture set made on the spot."""

    manifest: str | None = None  # or tar shards, such as shards/{000..123}.tar
    furniture_items: Number = 0
    furniture_seed: Seed = 0
    train_split: str = "train"
    val_split: str = "val"
    test_split: str = "test"
    test_items: Count = 300


class ViewsSection(RecipeSection):
    """How shapes are rendered; the bundle states the same."""

    rig: str = "ring6"
    size: Count = 224
    background: Literal["white", "black"] = "white"
    up: Literal["auto", "y", "z"] = "auto"


class GeometrySection(RecipeSection):
    name: str = "clip"
    dim: Count = 128
    params: dict[str, float] = Field(default_factory=dict)


class EntailmentSection(RecipeSection):
    """Texts are more general than pictures: a penalty for pictures outside their texts' cones."""

    weight: Weight = 0.0
    k: Positive = 0.1
    k_end: Positive | None = None  # where k has moved to, evenly, when the training ends


class LossSection(RecipeSection):
    """The loss by name, and the weights of the four comparisons."""

    name: str = "infonce"
    params: dict[str, int | FiniteFloat] = Field(default_factory=dict)
    text_image: Weight = 0.0  # every caption with every view
    agg_image: Weight = 1.0  # every caption with the item's views as one: its shape
    agg_text: Weight = 0.0  # every view with the item's captions as one
    agg_both: Weight = 0.0
    text_points: Weight = 0.0  # every caption with the item's points
    image_points: Weight = 0.0  # every view with them
    agg_points: Weight = 0.0  # the item's views as one with them
    pool: Literal["mean", "max"] = "mean"  # how views become one
    block: Number = 0  # rows at once, for batches whose matrix is too large; 0: all
    nested: tuple[Count, ...] = ()  # lengths that vectors can be cut to
    entailment: EntailmentSection = EntailmentSection()

    @model_validator(mode="after")
    def _check_nested(self) -> "LossSection":
        if list(self.nested) != sorted(set(self.nested)):
            raise ValueError(f"nested names lengths from short to long, each once, not {list(self.nested)}")
        return self

    @property
    def sees(self) -> bool:
        """Whether any comparison has views in it."""
        return bool(self.text_image or self.agg_image or self.agg_text or self.agg_both or self.views_points)

    @property
    def views_points(self) -> float:
        """How much comparisons of views with points weigh."""
        return self.image_points + self.agg_points


class TeacherSection(RecipeSection):
    """The moving average that losses with a soft term learn from."""

    momentum: float = Field(default=0.995, ge=0, le=1)
    scale: Positive | None = None  # the scale of its similarities; none: the student's


class AugmentSection(RecipeSection):
    """Augmentation of views besides the shift; none by default."""

    zoom: float = Field(
        default=1.0, ge=1, allow_inf_nan=False
    )  # enlarged so much, and a random part of the old size cut out
    turn: float = Field(default=0.0, ge=0, le=180)  # degrees, to either side
    mirror: bool = False  # wrong for captions that say left and right
    upside_down: bool = False
    spin: float = Field(default=0.0, ge=0, le=180)  # degrees about the vertical, for points


class TrainSection(RecipeSection):
    seed: Seed = 0
    start: str | None = None  # a checkpoint to go on from: its weights and its tokenizer, for fine-tuning
    steps: Count = 1000
    epochs: Weight = 0.0  # passes over all items, in place of steps
    items: Annotated[int, Field(ge=2)] = 128  # items a step, to be told apart
    views: Number = 1  # views an item a step; 0: all
    captions: Number = 1  # captions an item a step; 0: all
    pairs: bool = False  # a step takes so many pairs, not items: each view with each caption, once a pass
    groups: Number = 0  # groups of points an item a step; 0: all
    text_parts: Count = 1  # captions of like length are read together, in so many parts
    optimizer: Literal["adamw", "adam"] = "adamw"  # adam: decay is part of the gradient
    betas: tuple[Share, Share] = (0.9, 0.98)
    eps: Positive = 1e-8
    rate: Positive = 1e-3
    warmup: Number = 100
    weight_decay: Weight = 0.05
    clip: float = Field(default=1.0, gt=0)  # largest gradient norm; inf: any
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"  # the others: products in half precision, where safe
    compile: bool = False  # torch.compile: minutes at the start, faster steps
    chunk: Number = 0  # observations in memory at once; 0: all. The step stays the same
    judged: Share = 0.0  # share of judged items in a step; 0: as they come
    shift: Number = 6  # random translation of a view, in pixels
    augment: AugmentSection = AugmentSection()
    log_every: Count = 20  # steps between two lines in metrics.jsonl
    save_every: Count = 500  # steps between two states that --resume can go on from


class ValidationSection(RecipeSection):
    """Retrieval on held-out items; the best step becomes the checkpoint."""

    every: Number = 0  # steps; 0: never, and the last step becomes the checkpoint
    items: Count = 300
    measure: Literal["R@1", "R@5", "R@10", "MRR"] = "R@10"  # text to shape and shape to text, their mean


class HeadsSection(RecipeSection):
    """Matrices on the features of a bundle; what they learn is added to what it finds by itself."""

    width: Count = 128
    # Each is tried; the best on the val split is kept.
    rates: tuple[Positive, ...] = Field(default=(1e-3, 3e-3), min_length=1)
    shares: tuple[Positive, ...] = Field(default=(0.5, 1.0, 2.0, 4.0), min_length=1)  # of what is added
    patience: Count = 4  # measurements without a better one, until a rate is given up


class Recipe(RecipeSection):
    name: str
    about: str
    data: DataSection
    views: ViewsSection = ViewsSection()
    image: ImageSection = SmallImageSection()
    text: TextSection = SmallTextSection()
    points: PointsSection | None = None  # a third tower, over points of the surface
    heads: HeadsSection | None = None  # on a bundle, in the place of towers that learn
    geometry: GeometrySection = GeometrySection()
    loss: LossSection = LossSection()
    teacher: TeacherSection = TeacherSection()
    train: TrainSection = TrainSection()
    validation: ValidationSection = ValidationSection()

    @model_validator(mode="after")
    def _check_shift(self) -> "Recipe":
        shift = self.train.shift
        size = getattr(self.image, "size", None)
        if size is not None and shift >= size:
            raise ValueError(f"train.shift = {shift} moves views of {size} out of sight")
        return self


def with_steps_for(recipe: Recipe, count: int) -> Recipe:
    """The recipe with steps for its epochs over so many items or pairs; few make smaller, fewer steps."""
    train = recipe.train
    if not train.epochs:
        return recipe
    items = max(2, min(train.items, count))
    steps = max(1, round(train.epochs * count / items))
    fitted = {"items": items, "steps": steps, "warmup": min(train.warmup, steps // 5)}
    return recipe.model_copy(update={"train": train.model_copy(update=fitted)})


def parse_recipe(raw: dict[str, Any], source: str) -> Recipe:
    """Validate a recipe; errors name the key, and the most similar known key."""
    try:
        return Recipe.model_validate(_drop_former(raw, source))
    except ValidationError as error:
        wrong = error.errors()
        unread = next((each for each in wrong if each["type"] == "extra_forbidden"), None)
        place = (unread or wrong[0])["loc"] or ("recipe",)
        key = ".".join(map(str, place if place[0] not in TOWER_SECTIONS else (place[0], *place[2:])))
        if unread is None:
            raise RecipeError(f"{source}: {key}: {wrong[0]['msg'].removeprefix('Value error, ')}") from error
        near = get_close_matches(str(place[-1]), known := _keys(place[:-1]), 1, 0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
        raise RecipeError(f"{source}: nothing reads the key {key}; {hint}") from error


def _drop_former(raw: dict[str, Any], source: str) -> dict[str, Any]:
    """Without the keys that recipes of earlier runs have and nothing reads; refused where one was set."""
    for section, keys in FORMER_KEYS.items():
        if not isinstance(table := raw.get(section), dict):
            continue
        for key, unset in keys.items():
            if table.get(key, unset) != unset:
                raise RecipeError(f"{source}: nothing reads {section}.{key} any more: train without it")
        rest = {key: value for key, value in table.items() if key not in keys}
        others = {name: value for name, value in raw.items() if name != section}
        raw = others | ({section: rest} if section in Recipe.model_fields else {})
    return raw


def _keys(section: tuple[int | str, ...]) -> list[str]:
    """The keys of a section; for a tower's, the place of an error also holds the kind."""
    if section and section[0] in TOWER_SECTIONS:
        return list(TOWER_SECTIONS[str(section[0])][str(section[1])].model_fields)
    model: type[BaseModel] = Recipe
    for part in section:
        inner = model.model_fields[str(part)].annotation
        assert isinstance(inner, type)
        assert issubclass(inner, BaseModel)
        model = inner
    return list(model.model_fields)
