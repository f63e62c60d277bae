"""What actors send, and how it becomes an optimizer step."""
