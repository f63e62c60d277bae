"""Progress and status for a person."""
