"""Small towers that learn from scratch on a laptop."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from multifold.bundle.preprocess import ImageSpec
from multifold.bundle.text_reader import TableReader, open_text_reader, packaged_reader
from multifold.bundle.tokenizer import TextSpec
from multifold.types import Vectors
from training.recipes.schema import SmallImageSection, SmallTextSection
from training.towers.assemble import bag_tower, head, set_learning, text_tower
from training.towers.base import BlockStack, RowBlock, Tower, TowerError, pick_rows
from training.towers.heads import normal
from training.towers.image import ImageParts, PatchTower
from training.towers.kinds import ImageKind, TextKind, TowerContext, text_spec
from training.towers.text import TextParts
from training.towers.tokenizers import TrainedTokenizer, reader_tokenizer, train_definition

MEAN = (0.5, 0.5, 0.5)
STD = (0.25, 0.25, 0.25)
SPREAD = 0.02  # of fresh embeddings and positions
PACKAGED = "packaged"  # words that an installed package carries


class TransformerBlock(RowBlock):
    """A pre-norm block; `factor` is how much wider its middle layer is."""

    def __init__(self, width: int, heads: int, factor: int = 4, qkv_bias: bool = True) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=qkv_bias), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, factor * width), nn.Linear(factor * width, width)

    def forward(
        self, x: Float[Tensor, "b t c"], attn_mask: Tensor | None, rows: Int64[Tensor, "b r"] | None = None
    ) -> Float[Tensor, "b r c"]:
        attended = attend(self.qkv(self.before_attention(x)), self.heads, attn_mask, rows)
        x = (x if rows is None else pick_rows(x, rows)) + self.out(attended)
        mixed: Tensor = self.narrow(gelu(self.widen(self.before_mlp(x))))
        return x + mixed


def attend(
    qkv: Float[Tensor, "b t triple"],
    heads: int,
    mask: Tensor | None,
    rows: Int64[Tensor, "b r"] | None = None,
) -> Float[Tensor, "b r c"]:
    """Attention of all tokens, or of these rows, to all tokens; `mask` is added to the logits."""
    b, t, c = qkv.shape
    q, k, v = qkv.view(b, t, 3, heads, c // 3 // heads).permute(2, 0, 3, 1, 4).unbind(0)
    if rows is not None:
        q = q.gather(2, rows[:, None, :, None].expand(-1, heads, -1, q.shape[3]))
        mask = None if mask is None else mask[rows][:, None]
    mask = None if mask is None else mask.to(q.dtype)
    return scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)


def image_parts(section: SmallImageSection, classes: int) -> ImageParts:
    """Strided convolutions halve the picture; a transformer mixes the grid, and class tokens if wanted."""
    width = section.width
    side = section.size // 2 ** (len(section.stem) + 1)
    return ImageParts(
        stem=nn.Sequential(*_stem((3, *section.stem, width))),
        classes=normal(classes, width, std=width**-0.5) if classes else None,
        positions=normal(classes + side * side, width, std=SPREAD),
        before=nn.Identity(),
        blocks=BlockStack(TransformerBlock(width, section.heads) for _ in range(section.depth)),
        norm=nn.LayerNorm(width),
    )


def text_parts(section: SmallTextSection, vocabulary: int, words: Vectors | None = None) -> TextParts:
    """A causal transformer whose end-of-text token has the highest id; given words do not learn."""
    embed = nn.Embedding(vocabulary, section.width)
    nn.init.normal_(embed.weight, std=SPREAD)
    if words is not None:
        fitted = fit_words(words, section.width)
        rows = fitted[:vocabulary]  # a table may have more than its tokenizer names
        embed.weight.data[: len(rows)] = torch.from_numpy(rows)
    embed.weight.requires_grad_(not section.words)
    return TextParts(
        embed=embed,
        positions=normal(section.context, section.width, std=SPREAD),
        blocks=BlockStack(TransformerBlock(section.width, section.heads) for _ in range(section.depth)),
        norm=nn.LayerNorm(section.width),
        causal=True,
    )


def word_reader(section: SmallTextSection) -> TableReader | None:
    """The text reader that a tower begins with, if any."""
    if not section.words:
        return None
    reader = (
        packaged_reader(TableReader) if section.words == PACKAGED else open_text_reader(Path(section.words))
    )
    if reader is None:
        raise TowerError(
            "the words of this text tower come with the extra 'words': pip install 'multifold[words]'. "
            "Or learn a vocabulary of your captions alone: --set 'text.words=\"\"'"
        )
    if not isinstance(reader, TableReader):
        raise TowerError(f"{section.words} reads whole sentences: it has no vectors of words to begin with")
    return reader


def fit_words(words: Float32[np.ndarray, "w n"], width: int) -> Float32[np.ndarray, "w c"]:
    """The directions in which words differ most, as many as fit, with the spread of fresh embeddings."""
    _, directions = np.linalg.eigh(np.asarray(words.T @ words, np.float64))
    fitted = np.zeros((len(words), width), np.float32)
    kept = words @ directions[:, ::-1][:, :width].astype(np.float32)
    fitted[:, : kept.shape[1]] = kept * (SPREAD / max(float(kept.std()), 1e-12))
    return fitted


def _stem(channels: Sequence[int]) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for wide_in, wide_out in pairwise(channels[:-1]):
        layers += [nn.Conv2d(wide_in, wide_out, 3, 2, 1, bias=False), nn.GroupNorm(1, wide_out), nn.GELU()]
    return [*layers, nn.Conv2d(channels[-2], channels[-1], 3, 2, 1)]


class SmallImage(ImageKind[SmallImageSection]):
    def build(self, section: SmallImageSection, context: TowerContext) -> Tower:
        classes = section.tokens if isinstance(section.tokens, int) else 0
        parts = image_parts(section, classes)
        project = head(section, section.width, context.space)
        return set_learning(PatchTower(section, self.spec(section), parts, project), section)

    def spec(self, section: SmallImageSection) -> ImageSpec:
        return ImageSpec(size=section.size, mean=MEAN, std=STD)


class SmallText(TextKind[SmallTextSection]):
    def build(self, section: SmallTextSection, context: TowerContext) -> Tower:
        reader = word_reader(section) if context.pretrained else None
        words = None if reader is None else reader.token_vectors()
        parts = text_parts(section, context.vocabulary, words)
        if section.depth == 0:
            return set_learning(bag_tower(section, parts, context.space), section)
        return set_learning(text_tower(section, parts, context.space, None), section)

    def find_weights(self, section: SmallTextSection) -> None:
        word_reader(section)

    def spec(self, section: SmallTextSection, tokenizer: TrainedTokenizer) -> TextSpec:
        return text_spec(tokenizer, section.context, dynamic=section.tokens == "class")

    def tokenizer(self, section: SmallTextSection, texts: Iterable[str]) -> TrainedTokenizer:
        reader = word_reader(section)
        return train_definition(texts, section.vocabulary) if reader is None else reader_tokenizer(reader)
