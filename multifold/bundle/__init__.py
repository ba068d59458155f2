"""Exported encoders: bundle files, ONNX sessions, preprocessing, tokenizer and canaries."""
