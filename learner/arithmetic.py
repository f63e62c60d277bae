"""How PyTorch computes in a process that trains."""

import torch


def set_arithmetic(threads: int) -> None:
    """Set how PyTorch computes in this process from now on; a replay does the same. threads: optimizer.threads."""
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    # With TF32, cuDNN would round the factors of convolutions to ten bits, although the settings say float32.
    torch.backends.cudnn.allow_tf32 = False
