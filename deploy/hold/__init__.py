"""`a3cd hold`: actors on a host that a launcher elsewhere starts and stops over ssh."""
