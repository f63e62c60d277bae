"""How PyTorch computes in a process that trains."""

import torch


def set_arithmetic(threads: int) -> None:
    """How this process computes from now on; a replay computes in the same way. threads: optimizer.threads."""
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    # cuDNN would round the factors of convolutions to ten bits (TF32), where the settings say float32.
    torch.backends.cudnn.allow_tf32 = False
