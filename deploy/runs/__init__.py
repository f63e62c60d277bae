"""Many runs at once: listed, compared and drawn."""
