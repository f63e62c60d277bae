"""What is known of many runs at once: listed, compared and drawn."""
