"""`python -m a3cd` is the `a3cd` command."""

from a3cd import main

main()
