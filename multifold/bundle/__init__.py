"""Exported encoders: bundle files, ONNX sessions, preprocessing, tokenizer, canaries, calibration."""
