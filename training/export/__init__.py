"""From a model to a bundle: ONNX graphs, explain graphs, smaller variants, published weights."""
