"""The layout of published files is recognised by their names."""

import pytest

from app.pull.published_files import PullError, Variant, recognise_layout


@pytest.mark.parametrize(
    ("names", "variant", "sentence"),
    [
        (["onnx/model.onnx", "config.json"], "fp32", "found onnx/model.onnx"),
        (["pytorch_model.bin"], "fp32", "no ONNX graph at all"),
        (["onnx/vision_model.onnx", "onnx/text_model.onnx"], "fp16", "of the variant fp16"),
        (["visual/model.onnx", "textual/model.onnx"], "int8", "come as fp32 alone"),
        (["visual/model.onnx"], "fp32", "laid out as immich does it, but"),
    ],
)
def test_an_unknown_layout_is_told_with_what_is_there(
    names: list[str], variant: Variant, sentence: str
) -> None:
    with pytest.raises(PullError, match=sentence):
        recognise_layout(names, variant)
