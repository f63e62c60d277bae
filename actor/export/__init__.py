"""A trained policy as a file for other engines: ONNX, torch.export, safetensors."""
