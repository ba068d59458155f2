"""Published ONNX towers become bundles, without torch."""
