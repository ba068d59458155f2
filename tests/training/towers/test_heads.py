"""Heads and surgery as the papers have them: shapes, first values, and what sees what."""

import copy
from math import exp, log
from typing import Any

import pytest
import torch
from torch import nn

from tests.training.towers import kinds as towers
from training.towers.heads import CloudHead, ModalityScale, ProjectionHead
from training.towers.small import attend
from training.towers.text import causal_mask

pytestmark = pytest.mark.usefixtures("tiny_models")

END, WIDTH = towers.VOCABULARY - 1, 32


@pytest.mark.parametrize("kind", ["small, class tokens", "bert, class tokens", "vit, class tokens"])
def test_class_tokens_share_one_projection(kind: str) -> None:
    model, n = towers.built(kind), towers.DIM // 3
    for tower, seen in ((model.image, towers.pixels(32)), (model.text, towers.tokens())):
        assert tower.project.weight.shape == (n, WIDTH)
        found, mask = tower.tokens(seen)
        assert found.shape == (4, 3, WIDTH)
        assert mask.all()
        parts = tower(seen).unflatten(1, (3, n))
        torch.testing.assert_close(parts[:, 1], found[:, 1] @ tower.project.weight.T)
        assert not torch.allclose(found[:, 1], found[:, 2])


def test_a_cloud_of_a_picture_has_the_class_token_and_every_patch() -> None:
    found, mask = towers.built("vit, cloud").image.tokens(towers.pixels(32))
    assert found.shape == (4, 1 + (32 // 16) ** 2, WIDTH)
    assert mask.all()


@pytest.mark.slow
def test_a_picture_has_197_points_in_vit_b_16_and_a_text_77() -> None:
    both = {"kind": "openclip", "model": "ViT-B-16", "tokens": "all"}
    model = towers.build(both, {**both, "pads": "own"}, towers.CLOUD, 49408)
    ids = torch.zeros(1, 77, dtype=torch.int64)
    ids[:, 8] = 49407
    with torch.inference_mode():
        assert model.image.tokens(towers.pixels(224, 1))[0].shape == (1, 197, 768)
        assert model.text.tokens(ids)[0].shape == (1, 77, 512)
    assert model.text.tail.shape == (76, 512)


def test_fresh_matrices_spread_as_the_papers_have_them() -> None:
    wide = {**towers.SMALL_IMAGE, "width": 1024, "heads": 4, "depth": 1}
    cloud = towers.build({**wide, "tokens": "all"}, {**towers.SMALL_TEXT, "tokens": "all"}, towers.CLOUD)
    multi = towers.build({**wide, "tokens": 3}, {**towers.SMALL_TEXT, "tokens": 3}, towers.MULTI)
    assert cloud.image.project.points.shape == (1024, towers.DIM)
    assert cloud.image.project.weights.shape == (1024, 1)
    fresh = (
        cloud.image.project.points,
        cloud.image.project.weights,
        multi.image.project.weight,
        multi.image.classes,
    )
    for matrix in (parameter.detach() for parameter in fresh):
        assert float(matrix.std()) == pytest.approx(1024**-0.5, rel=0.1)
        assert abs(float(matrix.mean())) < 4 * (1024 * matrix.numel()) ** -0.5
    assert not torch.equal(multi.image.classes[0], multi.image.classes[1])


def test_both_clouds_are_embedded_by_one_draw() -> None:
    model = towers.built("small, cloud")
    assert model.image.project.geometry is model.text.project.geometry is model.geometry
    before = model.text(towers.tokens())
    model.geometry.resample(torch.Generator().manual_seed(5))
    assert not torch.allclose(model.text(towers.tokens()), before)
    teacher = copy.deepcopy(model)
    assert teacher.image.project.geometry is teacher.text.project.geometry is teacher.geometry
    assert teacher.geometry is not model.geometry


def test_a_cloud_is_read_from_points_weights_and_mask() -> None:
    model = towers.built("bert, cloud")
    found, mask = model.text.tokens(towers.tokens())
    assert mask.sum(1).tolist() == [2, 5, 9, 12]
    head = model.text.project
    assert isinstance(head, CloudHead)
    raw = torch.einsum("btc,c->bt", found, head.weights[:, 0])
    expected = model.geometry.embed(torch.einsum("btc,cd->btd", found, head.points), raw, mask)
    torch.testing.assert_close(model.text(towers.tokens()), expected)


def test_each_pad_is_a_point_with_an_embedding_of_its_own() -> None:
    tower, ids = towers.built("vit, cloud").text, towers.tokens()
    assert tower.tail.shape == (11, WIDTH)
    assert tower.length == "fixed"
    end = ids.argmax(1)
    embedded = tower.embed_words(ids, tower.places - end[:, None])
    torch.testing.assert_close(embedded[0, 2:], tower.tail[:10])
    torch.testing.assert_close(embedded[1, :5], tower.embed(ids[1, :5]))
    torch.testing.assert_close(embedded[3], tower.embed(ids[3]))
    assert tower.tokens(ids)[1].all()


def test_an_id_zero_inside_a_text_is_no_pad() -> None:
    tower, ids = towers.built("vit, cloud").text, towers.tokens()
    ids[2, 3] = 0  # towers.CLIP's "!"
    embedded = tower.embed_words(ids, tower.places - ids.argmax(1)[:, None])
    torch.testing.assert_close(embedded[2, 3], tower.embed.weight[0])


def test_pads_may_be_kept_as_the_model_reads_them() -> None:
    text = {**towers.VIT_TEXT, "tokens": "all"}
    for pads, counted in (("kept", [12] * 4), ("masked", [2, 5, 9, 12])):
        tower = towers.build({**towers.VIT_IMAGE, "tokens": "all"}, {**text, "pads": pads}, towers.CLOUD).text
        assert tower.tail is None
        assert tower.tokens(towers.tokens())[1].sum(1).tolist() == counted


@pytest.mark.parametrize("kind", ["small, class tokens", "vit, class tokens"])
def test_appended_tokens_see_the_sentence_and_no_pad(kind: str) -> None:
    tower, ids = towers.built(kind).text, towers.tokens()
    assert tower.positions.shape == (12 + 3, WIDTH)
    with torch.inference_mode():
        whole = tower.tokens(ids)[0]
        longer = ids.clone()
        longer[1, 5:] = 7  # what stands behind the end is never read; the ends stay where they are
        torch.testing.assert_close(tower.tokens(longer)[0], whole)
        torch.testing.assert_close(tower.tokens(ids[:2, :5])[0], whole[:2])
        ids[1, 2] = 42
        assert not torch.allclose(tower.tokens(ids)[0][1], whole[1])


def test_appended_tokens_stand_behind_the_end() -> None:
    tower, ids = towers.built("vit, class tokens").text, towers.tokens()
    row, end = ids[1:2, :5], 4
    x = torch.cat([tower.embed(row), tower.tail[None]], 1) + tower.positions[:8]
    expected = tower.norm(tower.blocks(x, causal_mask(8)))[:, end + 1 :]
    torch.testing.assert_close(tower.tokens(ids)[0][1:2], expected)


def test_extra_class_tokens_of_a_picture_leave_the_first_as_it_was() -> None:
    plain = towers.build(towers.VIT_IMAGE, towers.SMALL_TEXT, towers.CLIP).image
    more = towers.built("vit, class tokens").image
    assert torch.equal(more.classes[:1], plain.classes)
    assert torch.equal(more.positions[:1], plain.positions[:1])
    assert torch.equal(more.positions[3:], plain.positions[1:])
    assert more.positions.shape[0] == plain.positions.shape[0] + 2


def test_one_class_token_is_the_plain_tower_to_the_bit() -> None:
    plain = towers.build(towers.VIT_IMAGE, towers.SMALL_TEXT, towers.CLIP).image
    one = {**towers.VIT_IMAGE, "tokens": 1}
    other = towers.build(one, towers.SMALL_TEXT, towers.CLIP).image
    with torch.inference_mode():
        assert torch.equal(other.tokens(towers.pixels(32))[0], plain.tokens(towers.pixels(32))[0])


def test_all_tokens_begin_with_the_class_token_to_the_bit() -> None:
    plain = towers.build(towers.VIT_IMAGE, towers.VIT_TEXT, towers.CLIP)
    kept = {**towers.VIT_TEXT, "tokens": "all", "pads": "kept"}
    every = towers.build({**towers.VIT_IMAGE, "tokens": "all"}, kept, towers.CLOUD)
    for ours, theirs in ((every.image, plain.image), (every.text, plain.text)):
        missing, unexpected = ours.load_state_dict(theirs.state_dict(), strict=False)
        assert all(name.startswith("project.") for name in (*missing, *unexpected))
    ids = towers.tokens()
    rows = torch.arange(4)
    with torch.inference_mode():
        assert torch.equal(
            every.image.tokens(towers.pixels(32))[0][:, :1], plain.image.tokens(towers.pixels(32))[0]
        )
        assert torch.equal(every.text.tokens(ids)[0][rows, ids.argmax(1)], plain.text.tokens(ids)[0][:, 0])


def test_bert_repeats_one_class_embedding_at_positions_of_its_own() -> None:
    tower = towers.built("bert, class tokens").text
    assert tower.positions.shape == (12 + 2, WIDTH)
    found: list[torch.Tensor] = []
    tower.before.register_forward_pre_hook(lambda _, inputs: found.append(inputs[0]))
    tower(towers.tokens())
    expected = tower.embed.weight[1] + tower.positions[:3]
    torch.testing.assert_close(found[0][:, :3], expected.expand(4, 3, -1))


def test_a_bert_block_is_torchs_post_norm_layer() -> None:
    torch.manual_seed(0)
    block = towers.built("bert").text.blocks[0]
    plain = nn.TransformerEncoderLayer(WIDTH, 2, 4 * WIDTH, 0.0, "gelu", batch_first=True).eval()
    names = {"self_attn.in_proj_": "qkv.", "self_attn.out_proj.": "out.", "norm1.": "after_attention."}
    names |= {"linear1.": "mlp.0.", "linear2.": "mlp.2.", "norm2.": "after_mlp."}
    ours = block.state_dict()
    plain.load_state_dict({t + end: ours[o + end] for t, o in names.items() for end in ("weight", "bias")})
    x, pads = torch.randn(3, 7, WIDTH), torch.tensor([[False] * 7, [False] * 4 + [True] * 3, [False] * 7])
    hidden = torch.zeros(3, 7).masked_fill(pads, float("-inf"))[:, None, None]
    with torch.no_grad():
        expected = plain.train()(x, src_key_padding_mask=pads)
        torch.testing.assert_close(block(x, hidden)[~pads], expected[~pads], atol=1e-5, rtol=1e-5)


def test_bert_reads_both_ways() -> None:
    tower, ids = towers.built("bert").text, towers.tokens()
    first = tower.tokens(ids)[0]
    ids[3, 10] = 42
    assert not torch.allclose(tower.tokens(ids)[0][3], first[3])


def test_attention_under_autocast_takes_its_mask_along() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        out = attend(torch.randn(2, 5, 12, dtype=torch.bfloat16), 2, causal_mask(5))
    assert out.dtype == torch.bfloat16
    assert torch.isfinite(out).all()


def test_a_scale_starts_at_one_over_the_root_of_n() -> None:
    scale, features = ModalityScale(64, clamped=False), torch.ones(2, 64)
    torch.testing.assert_close(scale(features), features / 8)
    assert scale.log_scale.item() == pytest.approx(log(1 / 8))


def test_a_clamped_scale_never_grows_beyond_one_and_does_not_stick() -> None:
    scale, features = ModalityScale(4, clamped=True), torch.ones(2, 4)
    free = ModalityScale(4, clamped=False)
    for each in (scale, free):
        each.log_scale.data.fill_(0.5)
    torch.testing.assert_close(scale.eval()(features), features)
    assert scale.log_scale.item() == 0.5  # looking changes nothing
    scale.train()(features).sum().backward()
    assert scale.log_scale.item() == 0.0
    torch.testing.assert_close(scale.log_scale.grad, torch.tensor(8.0))
    torch.testing.assert_close(free(features), features * exp(0.5))


def test_hyperbolic_geometries_get_their_scales_unasked() -> None:
    lorentz = {"name": "lorentz", "dim": towers.DIM}
    scales = [
        model.image.scale
        for model in (towers.built("small"), towers.built("small, hyperbolic, no final norm"))
    ]
    assert scales[0] is None
    assert isinstance(scales[1], ModalityScale)
    off = towers.build({**towers.SMALL_IMAGE, "scale": "none"}, towers.SMALL_TEXT, lorentz)
    assert off.image.scale is None
    assert off.text.scale is not None
    assert off.text.scale is not towers.built("small, hyperbolic, no final norm").image.scale


def test_a_switched_off_scale_changes_no_bit() -> None:
    text = {**towers.BERT, "scale": "learned"}
    scaled = towers.build(towers.SMALL_IMAGE, text, towers.CLIP).text
    with torch.inference_mode():
        plain = scaled.project(*scaled.tokens(towers.tokens()))
        assert torch.equal(built_without_scale(scaled)(towers.tokens()), plain)
        torch.testing.assert_close(scaled(towers.tokens()), plain * towers.DIM**-0.5)


def built_without_scale(tower: Any) -> Any:  # noqa: ANN401
    plain = copy.deepcopy(tower)
    plain.scale = None
    return plain


def test_a_projection_may_have_a_bias() -> None:
    linear = nn.Linear(4, 3)
    head, tokens = ProjectionHead(linear.weight, linear.bias), torch.randn(5, 1, 4)
    mask = torch.ones(5, 1, dtype=torch.bool)
    torch.testing.assert_close(head(tokens, mask), linear(tokens[:, 0]))
