"""From a policy to a bundle: the ONNX graph, recorded vectors, the proof. Imports torch."""
